-- Bodies are JSON of the wire; columns are what lists, joins and recovery read.

create table project (
    id           text primary key not null,
    time_updated integer not null,
    data         text not null
) without rowid;

create table session (
    id           text primary key not null,
    project_id   text not null,
    parent_id    text,
    directory    text not null,
    path         text,
    title        text not null,
    time_created integer not null,
    time_updated integer not null,
    touched      integer not null, -- when the row was last written: lists are in this order
    data         text not null
);
create index session_by_touch on session (touched desc, id);
create index session_by_parent on session (parent_id) where parent_id is not null;
create index session_by_directory on session (directory, touched desc);

create table message (
    id           text primary key not null,
    session_id   text not null references session (id) on delete cascade,
    time_created integer not null,
    data         text not null
);
create index message_by_session on message (session_id, time_created, id);

-- Parts are read in the order in which they were first stored: by rowid.
create table part (
    id         text primary key not null,
    message_id text not null references message (id) on delete cascade,
    session_id text not null,
    started    integer not null default 0, -- a tool call whose effects have begun
    data       text not null
);
create index part_by_message on part (message_id);
create index part_by_session on part (session_id);

create table todo (
    session_id text primary key not null references session (id) on delete cascade,
    data       text not null
) without rowid;

-- Prompts that are accepted and not yet answered.
create table turn (
    message_id text primary key not null,
    session_id text not null references session (id) on delete cascade,
    kind       text not null,
    attempt    integer not null default 0,
    resets     integer not null default 0,
    time       integer not null
) without rowid;
create index turn_by_session on turn (session_id);

-- What waits for a person, and what was answered while its call has no result yet.
create table ask (
    id         text primary key not null,
    session_id text not null references session (id) on delete cascade,
    message_id text,
    call_id    text,
    agent      text,
    kind       text not null, -- permission | question
    data       text not null,
    reply      text,
    time       integer not null
) without rowid;
create index ask_by_session on ask (session_id);

-- What a person allowed for good.
create table approval (
    id         text primary key not null,
    scope      text not null, -- session | project
    project_id text not null,
    session_id text references session (id) on delete cascade,
    data       text not null,
    time       integer not null
) without rowid;

-- Process groups that were started and not yet seen to end.
create table process (
    pgid       integer not null,
    boot_id    text not null,
    session_id text not null,
    started    integer not null,
    primary key (pgid, boot_id)
) without rowid;

-- The durable event log, trimmed by age and size.
create table event (
    row        integer primary key autoincrement,
    session_id text,
    seq        integer,
    id         text not null,
    kind       text not null,
    directory  text not null,
    project    text not null,
    time       integer not null,
    size       integer not null, -- of data, so that trimming needn't read it
    data       text not null
);

create table event_sequence (
    session_id text primary key not null references session (id) on delete cascade,
    next       integer not null
) without rowid;
