//! A damaged list of tables, put right in a copy of the file.
//!
//! SQLite keeps the list (which tables there are, and on which page each begins) on the file's first page and a few
//! more. Without it nothing can be found. All databases of a version are made by the same steps, so their tables begin
//! on the same pages: the list of a new, empty database serves. Where a table begins elsewhere (it came with a later
//! version), SQLite finds no such table there, and only that one is lost.

use std::io::{Seek, SeekFrom, Write};
use std::path::Path;

/// Bytes of a page of all our databases.
const PAGE: usize = 4096;
/// Bytes of the file's header, on its first page.
const HEADER: usize = 100;
/// Where the header has the file's size, in pages, and the first of its unused pages and their number.
const SIZE: std::ops::Range<usize> = 28..32;
const UNUSED: std::ops::Range<usize> = 32..40;
/// A page that only names others.
const INNER: u8 = 5;
/// Deepest list that is followed.
const DEPTH: usize = 4;

/// The list of tables of a database: pages with their numbers, from 0.
#[derive(Debug)]
pub struct List(Vec<(usize, Vec<u8>)>);

impl List {
    /// Returns the list of a new database, to which nothing was written yet: it is read whole.
    pub fn of(sound: &Path) -> std::io::Result<Self> {
        let file = std::fs::read(sound)?;
        let page = |page: usize| Some((page, file.get(page * PAGE..(page + 1) * PAGE)?.to_vec()));
        Ok(Self(pages(&file).into_iter().filter_map(page).collect()))
    }

    /// Writes to `to` what `damaged` holds, with this list of tables.
    pub fn transplant(&self, damaged: &Path, to: &Path) -> std::io::Result<()> {
        std::fs::copy(damaged, to)?;
        let mut file = std::fs::File::options().write(true).open(to)?;
        let needed = self.0.iter().map(|(page, _)| page + 1).max().unwrap_or(0);
        let count = file.metadata()?.len().div_ceil(PAGE as u64).max(needed as u64);
        file.set_len(count * PAGE as u64)?;
        for (page, bytes) in &self.0 {
            let mut bytes = bytes.clone();
            if *page == 0 {
                let count = u32::try_from(count).unwrap_or(u32::MAX);
                bytes.get_mut(SIZE).into_iter().for_each(|size| size.copy_from_slice(&count.to_be_bytes()));
                bytes.get_mut(UNUSED).into_iter().for_each(|unused| unused.fill(0));
            }
            file.seek(SeekFrom::Start((page * PAGE) as u64))?;
            file.write_all(&bytes)?;
        }
        Ok(())
    }
}

/// Returns the pages that hold the list of tables; the first is 0.
pub fn pages(file: &[u8]) -> Vec<usize> {
    let mut all = vec![0];
    let mut level = vec![0];
    for _ in 0..DEPTH {
        level = level.into_iter().flat_map(|page| children(file, page)).collect();
        all.extend(&level);
    }
    all
}

/// Source: "B-tree Pages" of SQLite's file format. Inner pages have 12 bytes of header, the last four of them the
/// rightmost child, and then the places of cells that begin with a child each.
fn children(file: &[u8], page: usize) -> Vec<usize> {
    let Some(bytes) = page.checked_mul(PAGE).and_then(|at| file.get(at..at + PAGE)) else { return Vec::new() };
    let header = if page == 0 { HEADER } else { 0 };
    if bytes.get(header) != Some(&INNER) {
        return Vec::new();
    }
    let short = |at: usize| bytes.get(at..at + 2).and_then(|b| b.try_into().ok()).map(u16::from_be_bytes);
    let child = |at: usize| {
        let number = bytes.get(at..at + 4).and_then(|b| b.try_into().ok()).map(u32::from_be_bytes)?;
        usize::try_from(number).ok()?.checked_sub(1)
    };
    let cells = usize::from(short(header + 3).unwrap_or(0));
    let left = (0..cells).filter_map(|cell| child(usize::from(short(header + 12 + 2 * cell)?)));
    left.chain(child(header + 8)).collect()
}
