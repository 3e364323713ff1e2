//! Files that are being sent: each is open once, however many read it, and no more of them at a time than
//! there may be.
//!
//! Who reads one holds its place, not a descriptor. Files that nobody has read for long are closed when
//! others are to be opened, and opened again when somebody goes on reading: so readers that have stalled take
//! no descriptor from those that read.

use std::collections::BTreeMap;
use std::fs::{File, Metadata};
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use bytes::{Bytes, BytesMut};
use quickset::Budget;
use quickset_base::number::Unsigned as _;

use super::beneath::Beneath;
use super::parts::{Parts, Slice};
use super::version::FileVersion;

/// The files that are open.
#[derive(Debug)]
pub(in super::super) struct Files {
    table: Mutex<FilesTable>,
    parts: Parts,
    /// So many at most, but for those that are read in this moment.
    most: usize,
}

#[derive(Debug, Default)]
struct FilesTable {
    entries: BTreeMap<FileVersion, ReadFile>,
    open: usize,
    /// Counts uses.
    clock: u64,
}

/// One file that somebody reads.
#[derive(Debug)]
struct ReadFile {
    readers: usize,
    file: Option<Arc<File>>,
    used: u64,
}

/// A file to be read.
#[derive(Debug)]
pub(in super::super) struct Readable {
    files: Arc<Files>,
    place: Beneath,
    version: FileVersion,
    /// No other version can look the same.
    is_settled: bool,
    /// A look at it waits for no network and no other program.
    is_near: bool,
}

impl Files {
    /// Keeps so many files open at most, and of what is read of them what the budget has room for.
    pub(super) fn new(most: usize, budget: Budget) -> Arc<Self> {
        Arc::new(Self { table: Mutex::default(), parts: Parts::new(budget), most: most.max(1) })
    }

    /// Opens a file, at this time of the clock by which files are dated.
    ///
    /// # Errors
    /// Those of the system.
    pub(super) fn open(
        self: &Arc<Self>,
        place: Beneath,
        now: SystemTime,
    ) -> io::Result<(Readable, Metadata)> {
        // Whoever has it open already knows what it is now: it may have been written to.
        let known = self.table().known(FileVersion::of(place.metadata()));
        let file = match known {
            Some(file) => file,
            None => Arc::new(place.open()?),
        };
        let metadata = file.metadata()?;
        let version = FileVersion::of(&metadata);
        let (is_settled, is_near) = (version.is_settled(now), is_near(&file));
        let mut table = self.table();
        let entry = table.entries.entry(version).or_insert(ReadFile { readers: 0, file: None, used: 0 });
        entry.readers += 1;
        table.keep(version, &file, self.most);
        Ok((Readable { files: self.clone(), place, version, is_settled, is_near }, metadata))
    }

    /// Has the parts of files that are kept given up when connections need the memory or nobody wants them
    /// any more, for as long as this is polled.
    pub(super) async fn tend(&self) {
        self.parts.tend().await;
    }

    fn table(&self) -> MutexGuard<'_, FilesTable> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The file as it was found.
    fn get(&self, place: &Beneath, version: FileVersion) -> io::Result<Arc<File>> {
        if let Some(file) = self.table().known(version) {
            return Ok(file);
        }
        let file = Arc::new(place.open()?);
        if FileVersion::of(&file.metadata()?) != version {
            return Err(io::Error::other("the file was replaced while it was sent"));
        }
        self.table().keep(version, &file, self.most);
        Ok(file)
    }
}

impl FilesTable {
    /// The file, if it is open.
    fn known(&mut self, version: FileVersion) -> Option<Arc<File>> {
        let entry = self.entries.get_mut(&version)?;
        self.clock += 1;
        entry.used = self.clock;
        entry.file.clone()
    }

    /// Keeps a file open that was used just now, and closes those that were not for the longest time, if
    /// these are too many.
    fn keep(&mut self, version: FileVersion, file: &Arc<File>, most: usize) {
        self.clock += 1;
        let Some(entry) = self.entries.get_mut(&version) else { return };
        entry.used = self.clock;
        if entry.file.is_none() {
            entry.file = Some(file.clone());
            self.open += 1;
        }
        while self.open > most {
            let open = self.entries.values_mut().filter(|entry| entry.file.is_some());
            let Some(oldest) = open.min_by_key(|entry| entry.used) else { return };
            oldest.file = None;
            self.open -= 1;
        }
    }

    fn leave(&mut self, version: FileVersion) {
        let Some(entry) = self.entries.get_mut(&version) else { return };
        entry.readers -= 1;
        if entry.readers == 0 {
            self.open -= usize::from(entry.file.is_some());
            self.entries.remove(&version);
        }
    }
}

impl Readable {
    /// Reads up to `len` bytes from `offset` on, none at the end; waits for the disk where it has to. The
    /// last ones before `end` are to be had only if nobody has written to the file since it was found: what
    /// was read before is of the same bytes then.
    ///
    /// # Errors
    /// Those of the system, when there is another file in its place, and when it was written to.
    pub(in super::super) fn read(&self, offset: u64, len: usize, end: u64) -> io::Result<Bytes> {
        let file = self.files.get(&self.place, self.version)?;
        ahead(&file, offset);
        let read = |part: &mut [u8], offset: u64| loop {
            match read_at(&file, part, offset) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                read => return read,
            }
        };
        let bytes = if let Some(bytes) = self.shared(offset, len, read) {
            bytes
        } else {
            let mut part = room(len);
            let n = read(&mut part, offset)?;
            part.truncate(n);
            part.freeze()
        };
        if offset + bytes.len() as u64 >= end && !self.is_unwritten(&file)? {
            return Err(io::Error::other("the file was written to while it was sent"));
        }
        Ok(bytes)
    }

    fn is_unwritten(&self, file: &File) -> io::Result<bool> {
        Ok(self.version.has_bytes_of(&FileVersion::of(&file.metadata()?)))
    }

    /// Bytes of a part that somebody has read, or that is read for all now. `None` where others may not have
    /// it, too, and where it cannot be read as a whole.
    fn shared(
        &self,
        offset: u64,
        len: usize,
        read: impl Fn(&mut [u8], u64) -> io::Result<usize>,
    ) -> Option<Bytes> {
        let parts = &self.files.parts;
        let slice = if self.is_settled { Slice::of(self.version, offset, len) } else { None }?;
        if let Some(bytes) = parts.get(&slice) {
            return Some(bytes);
        }
        let mut room = parts.room(&slice)?;
        match read(&mut room, slice.offset()) {
            Ok(n) if n == slice.len => Some(parts.put(&slice, room)),
            _ => None,
        }
    }

    /// All of a file that is no longer than `most`, as it was when it was found.
    ///
    /// # Errors
    /// See [`read`](Self::read).
    pub(super) fn whole(&self, most: u64) -> io::Result<Option<Bytes>> {
        let len = self.version.len();
        if len > most {
            return Ok(None);
        }
        // There may be more, or less: then it is another version.
        let content = self.read(0, len.saturated::<usize>(), len)?;
        let file = self.files.get(&self.place, self.version)?;
        let is_same = content.len() as u64 == len && FileVersion::of(&file.metadata()?) == self.version;
        Ok(is_same.then_some(content))
    }

    /// Whether a look at it waits for no network and no other program, which may be gone: what the system
    /// does not tell, or is not known here, may.
    pub(super) fn is_near(&self) -> bool {
        self.is_near
    }

    /// What it was when it was found; should it be closed, it is opened again only if it is that.
    pub(super) fn version(&self) -> FileVersion {
        self.version
    }

    /// What [`read`](Self::read) reads, if the system has the bytes in memory, or some of them, and what else
    /// is to be known.
    #[cfg(target_os = "linux")]
    pub(in super::super) fn read_at_once(&self, offset: u64, len: usize, end: u64) -> Option<Bytes> {
        use rustix::io::{ReadWriteFlags, preadv2};
        let file = self.files.table().known(self.version)?;
        // What it refuses is told, in words of its own, by the way that waits: a file system may not know the
        // flag.
        let read = |part: &mut [u8], offset: u64| {
            let slices = &mut [io::IoSliceMut::new(part)];
            Ok(preadv2(&*file, slices, offset, ReadWriteFlags::NOWAIT)?)
        };
        let bytes = if let Some(bytes) = self.shared(offset, len, read) {
            bytes
        } else {
            let mut part = room(len);
            let n = read(&mut part, offset).ok()?;
            part.truncate(n);
            part.freeze()
        };
        // At the end of the file, or where there may be nothing in memory.
        let is_some = !bytes.is_empty();
        let is_last = offset + bytes.len() as u64 >= end;
        // That it was written to is told by the way that waits, too.
        let is_good = !is_last || (self.is_near && self.is_unwritten(&file).ok()?);
        (is_some && is_good).then_some(bytes)
    }

    #[cfg(not(target_os = "linux"))]
    pub(in super::super) fn read_at_once(&self, _offset: u64, _len: usize, _end: u64) -> Option<Bytes> {
        None
    }
}

impl Drop for Readable {
    fn drop(&mut self) {
        self.files.table().leave(self.version);
    }
}

/// The disk is to be waited for: what is wanted next is fetched along, whoever reads what of the file.
#[cfg(target_os = "linux")]
fn ahead(file: &File, offset: u64) {
    // It is a hint.
    let _ = rustix::fs::fadvise(file, offset, std::num::NonZeroU64::new(AHEAD), rustix::fs::Advice::WillNeed);
}

#[cfg(not(target_os = "linux"))]
fn ahead(_: &File, _: u64) {}

#[cfg(unix)]
fn read_at(file: &File, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    std::os::unix::fs::FileExt::read_at(file, buffer, offset)
}

#[cfg(windows)]
fn read_at(file: &File, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    std::os::windows::fs::FileExt::seek_read(file, buffer, offset)
}

/// Whether a file is on this machine alone; false where the system does not tell.
#[cfg(target_os = "linux")]
fn is_near(file: &File) -> bool {
    // Of 32 bits, which some systems take for a number with a sign.
    rustix::fs::fstatfs(file).is_ok_and(|told| {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "32 bits, whatever holds them"
        )]
        let kind = told.f_type as u32;
        is_near_kind(kind)
    })
}

#[cfg(not(target_os = "linux"))]
fn is_near(_: &File) -> bool {
    false
}

/// Whether a file system of this kind is on this machine alone.
#[cfg(target_os = "linux")]
fn is_near_kind(kind: u32) -> bool {
    NEAR.contains(&kind)
}

/// Bytes that are fetched from a disk at a time.
#[cfg(target_os = "linux")]
const AHEAD: u64 = 1 << 20;

/// File systems of disks and of memory, by what statfs(2) calls them: ext2 to ext4, XFS, Btrfs, ZFS, F2FS,
/// bcachefs, tmpfs, ramfs, overlayfs, SquashFS, EROFS, ISO 9660.
#[cfg(target_os = "linux")]
const NEAR: [u32; 12] = [
    0xef53,
    0x5846_5342,
    0x9123_683e,
    0x2fc1_2fc1,
    0xf2f5_2010,
    0xca45_1a4e,
    0x0102_1994,
    0x8584_58f6,
    0x794c_7630,
    0x7371_7368,
    0xe0f5_e1e2,
    0x9660,
];

/// Room to read so many bytes into. Nobody asks the allocator for zeros here: it would have the system take
/// the pages away and give new ones, each of which costs a fault, which is more than to write over those that
/// there are.
fn room(len: usize) -> BytesMut {
    let mut room = BytesMut::with_capacity(len);
    room.resize(len, 0);
    room
}

#[cfg(test)]
mod tests {
    use super::super::root::Root;
    use super::*;

    fn made(folder: &tempfile::TempDir, names: &[&str]) -> Vec<Beneath> {
        let root = Arc::new(Root::open(folder.path()).unwrap());
        let make = |name: &&str| {
            std::fs::write(folder.path().join(name), format!("content of {name}")).unwrap();
            Beneath::find(&root, std::path::Path::new(name)).unwrap()
        };
        names.iter().map(make).collect()
    }

    /// Behind all that there is.
    const FAR: u64 = u64::MAX;

    fn open(files: &Files) -> usize {
        let table = files.table();
        assert_eq!(table.open, table.entries.values().filter(|entry| entry.file.is_some()).count());
        table.open
    }

    #[test]
    fn a_file_is_open_once_and_closed_behind_its_last_reader() {
        let folder = tempfile::tempdir().unwrap();
        let places = made(&folder, &["a"]);
        let files = Files::new(10, Budget::new(1 << 20));
        let readers: Vec<Readable> =
            (0..100).map(|_| files.open(places[0].clone(), SystemTime::now()).unwrap().0).collect();
        assert_eq!(open(&files), 1);
        assert!(readers.iter().all(|reader| reader.read(8, 100, FAR).unwrap()[..] == *b"of a"));
        assert!(readers[0].read(12, 100, FAR).unwrap().is_empty(), "the end");
        drop(readers);
        assert_eq!((open(&files), files.table().entries.len()), (0, 0));
    }

    #[test]
    fn those_that_are_not_read_are_closed_for_others() {
        let folder = tempfile::tempdir().unwrap();
        let places = made(&folder, &["a", "b", "c", "d"]);
        let files = Files::new(2, Budget::new(1 << 20));
        let readers: Vec<Readable> =
            places.iter().map(|place| files.open(place.clone(), SystemTime::now()).unwrap().0).collect();
        assert_eq!(open(&files), 2);
        for (reader, name) in readers.iter().zip(["a", "b", "c", "d"]) {
            assert_eq!(reader.read(11, 9, FAR).unwrap(), name.as_bytes());
            assert_eq!(open(&files), 2);
        }
        assert!(readers[0].read_at_once(0, 9, FAR).is_none(), "it was closed, and to open it may wait");
    }

    /// Half of one file and half of another is no answer.
    #[test]
    fn who_goes_on_with_a_file_that_was_closed_has_the_same_one_or_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let places = made(&folder, &["a", "b"]);
        let files = Files::new(1, Budget::new(1 << 20));
        let (first, _) = files.open(places[0].clone(), SystemTime::now()).unwrap();
        // Replaced while it is open: it is read to its end.
        std::fs::write(folder.path().join("new"), "content of x").unwrap();
        std::fs::rename(folder.path().join("new"), folder.path().join("a")).unwrap();
        assert_eq!(first.read(0, 100, FAR).unwrap()[..], *b"content of a");
        let (_second, _) = files.open(places[1].clone(), SystemTime::now()).unwrap();
        let error = first.read(0, 100, FAR).unwrap_err();
        assert!(error.to_string().contains("replaced"), "{error}");
        let (third, _) = files.open(places[0].clone(), SystemTime::now()).unwrap();
        assert_eq!(third.read(0, 100, FAR).unwrap()[..], *b"content of x");
    }

    /// What the last bytes come with is what all came of.
    #[test]
    fn who_reads_to_the_end_has_one_version_or_an_error() {
        use std::io::Write as _;
        use std::path::Path;
        type Happening = fn(&Path);
        let writing: Happening = |path| std::fs::write(path, "CONTENT OF A").unwrap();
        let adding: Happening =
            |path| std::fs::File::options().append(true).open(path).unwrap().write_all(b"!").unwrap();
        // As `cp -p` and `rsync --inplace -t` do, where all files are dated alike.
        let writing_unseen: Happening = |path| {
            let modified = path.metadata().unwrap().modified().unwrap();
            std::fs::write(path, "CONTENT OF A").unwrap();
            std::fs::File::options().write(true).open(path).unwrap().set_modified(modified).unwrap();
        };
        let replacing: Happening = |path| {
            std::fs::write(path.with_extension("new"), "CONTENT OF A").unwrap();
            std::fs::rename(path.with_extension("new"), path).unwrap();
        };
        let removing: Happening = |path| std::fs::remove_file(path).unwrap();
        let linking: Happening = |path| std::fs::hard_link(path, path.with_extension("also")).unwrap();
        let nothing: Happening = |_| {};
        for (name, happening, is_whole) in [
            ("nothing", nothing, true),
            ("written to", writing, false),
            ("written to, and dated back", writing_unseen, false),
            ("added to", adding, false),
            ("replaced", replacing, true),
            ("removed", removing, true),
            ("linked to", linking, true),
        ] {
            let folder = tempfile::tempdir().unwrap();
            let places = made(&folder, &["a"]);
            let path = folder.path().join("a");
            let files = Files::new(10, Budget::new(1 << 20));
            let (reader, metadata) = files.open(places[0].clone(), SystemTime::now()).unwrap();
            assert_eq!(reader.read(0, 8, 12).unwrap()[..], *b"content ", "{name}");
            let before = metadata.modified().unwrap();
            let (probe, written) =
                (folder.path().join("probe"), |path: &Path| path.metadata().unwrap().modified().unwrap());
            while std::fs::write(&probe, "").is_ok() && written(&probe) <= before {}
            happening(&path);
            if !is_whole {
                assert!(reader.read_at_once(8, 4, 12).is_none(), "{name}");
            }
            match reader.read(8, 4, 12) {
                Ok(rest) => assert!(is_whole && rest[..] == *b"of a", "{name}: {rest:?}"),
                Err(error) => {
                    assert!(!is_whole && error.to_string().contains("written to"), "{name}: {error}");
                }
            }
        }
    }

    /// By the numbers of statfs(2).
    #[cfg(target_os = "linux")]
    #[test]
    fn what_another_machine_or_program_answers_for_is_not_near() {
        let (ext4, tmpfs, btrfs) = (0xef53, 0x0102_1994, 0x9123_683e);
        assert!([ext4, tmpfs, btrfs].into_iter().all(is_near_kind));
        let (nfs, smb, smb2, cifs) = (0x6969, 0x517b, 0xfe53_4d42, 0xff53_4d42);
        let (fuse, plan9, ceph, afs, autofs) = (0x6573_5546, 0x0102_1997, 0x00c3_6400, 0x5346_414f, 0x0187);
        let far = [nfs, smb, smb2, cifs, fuse, plan9, ceph, afs, autofs, 0, u32::MAX];
        assert!(!far.into_iter().any(is_near_kind));
    }

    /// Those who read the same file at about the same pace have it read once; who comes when it was written
    /// to reads it anew.
    #[cfg(target_os = "linux")]
    #[test]
    fn parts_are_read_once_for_all_who_want_them() {
        const LEN: usize = 64 << 10;
        let folder = tempfile::tempdir().unwrap();
        let places = made(&folder, &["large"]);
        let large = folder.path().join("large");
        let write = |byte: u8| std::fs::write(&large, vec![byte; 3 * LEN + 100]).unwrap();
        write(b'a');
        let later = SystemTime::now() + std::time::Duration::from_secs(10);
        // Room for two parts.
        let budget = Budget::new(16 * 2 * LEN as u64);
        let files = Files::new(10, budget.clone());
        let open = |now| files.open(places[0].clone(), now).unwrap().0;
        let (one, other, young) = (open(later), open(later), open(SystemTime::now()));
        let first = one.read(0, LEN, FAR).unwrap();
        let again = other.read_at_once(10, LEN, FAR).unwrap();
        assert_eq!((first.len(), again.len()), (LEN, LEN - 10), "as far as the part goes");
        assert_eq!(again.as_ptr(), first[10..].as_ptr());
        assert_ne!(young.read(0, LEN, FAR).unwrap().as_ptr(), first.as_ptr(), "it may still change");
        assert_eq!(one.read(3 * LEN as u64, LEN, FAR).unwrap().len(), 100, "the end");
        for n in [1, 2, 0, 2, 1] {
            assert_eq!(one.read(n * LEN as u64, LEN, FAR).unwrap(), vec![b'a'; LEN]);
            assert!(budget.usage().held <= 2 * LEN as u64);
        }
        assert_eq!(first, vec![b'a'; LEN], "what is on its way is not written over");
        let written = |path: &std::path::Path| path.metadata().unwrap().modified().unwrap();
        let (probe, before) = (folder.path().join("probe"), written(&large));
        while std::fs::write(&probe, "").is_ok() && written(&probe) <= before {}
        write(b'b');
        let new = open(later);
        assert_eq!(new.read(LEN as u64, LEN, FAR).unwrap(), vec![b'b'; LEN]);
        // Shorter than it was: who reads on hears of the end.
        std::fs::write(&large, vec![b'c'; 2 * LEN + 5]).unwrap();
        assert_eq!(new.read(2 * LEN as u64, LEN, FAR).unwrap(), vec![b'c'; 5]);
        assert!(new.read(2 * LEN as u64 + 5, LEN, FAR).unwrap().is_empty());
        drop((one, other, young, new, files));
        assert_eq!(budget.usage().held, 0);
    }
}
