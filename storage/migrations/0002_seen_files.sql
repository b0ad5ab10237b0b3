-- The content of files as a session last read or wrote them: an edit of anything else is refused.
create table seen_file (
    session_id text not null references session (id) on delete cascade,
    path       text not null,
    hash       text not null, -- SHA-256 in hexadecimal digits
    primary key (session_id, path)
) without rowid;
