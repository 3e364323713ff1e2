//! `--put`: files that clients bring, into one folder of the site.
//!
//! A file comes under no name (`O_TMPFILE`), or under a hidden one where the system has nothing better, is
//! written to the disk, and takes its name in one step: whoever asks has the old one or the new one. What
//! breaks off leaves nothing. All of it goes by an open folder, which no link leads to: whatever becomes of
//! names meanwhile, nothing is written outside.
//!
//! Invariants, as far as nobody else writes there: what is in the folder takes no more than `--put-total`,
//! and neither does what will be there, whichever of the files on their way come through; while files are
//! replaced, old and new ones take no more than that and `--put-max` together.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use quickset::h3::{Request, Response};
use rustix::fs::{AtFlags, Mode, OFlags};
use rustix::io::Errno;

use super::beneath::{Beneath, EntryKind};
use super::condition::{self, RequestConditions};
use super::root::Root;
use super::version::FileVersion;
use super::{FileAnswer, field, is_passing, text};

/// The folder that files are brought into.
#[derive(Debug)]
pub(in super::super) struct PutArea {
    /// Below the root, without links.
    place: PathBuf,
    most: u64,
    total: u64,
    room: Mutex<AreaRoom>,
    /// One file at a time takes its name, so that conditions hold still when it does.
    names: Mutex<()>,
}

/// How much may be brought.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct Most {
    /// Bytes of a file.
    pub(in super::super) file: u64,
    /// Bytes of all that is in the folder, where each file takes a few thousand at least.
    pub(in super::super) all: u64,
}

/// What is taken of the folder's room.
#[derive(Debug)]
struct AreaRoom {
    /// By its files, and by those on their way as far as they take more than they replace.
    used: u64,
    /// By those on their way instead of what they replace: both are on the disk for a while.
    beside: u64,
    /// Files that are being replaced: one at a time does so in the room of the other.
    replaced: BTreeSet<FileId>,
}

/// The device, and the file on it.
type FileId = (u64, u64);

/// A file that has the name already.
#[derive(Clone, Copy, Debug)]
struct Old {
    id: FileId,
    /// The room that it takes.
    takes: u64,
}

/// A file on its way.
#[derive(Debug)]
pub(in super::super) struct FileDraft {
    area: Arc<PutArea>,
    folder: OwnedFd,
    name: OsString,
    asked: PutConditions,
    file: File,
    /// The name that it has until it is whole, if it has any.
    hidden: Option<OsString>,
    len: u64,
    /// The room that it takes.
    reserved: u64,
    /// How much of that is not counted, since it is that of the file which it replaces.
    beside: u64,
    /// That file, if no other draft has its room.
    replaces: Option<FileId>,
}

/// On which conditions (RFC 9110 §13.1).
#[derive(Debug)]
struct PutConditions {
    tags: Option<String>,
    no_tags: Option<String>,
    unmodified_since: Option<String>,
}

/// Why a file is not taken.
#[derive(Debug)]
pub(in super::super) struct PutRefusal {
    status: u16,
    why: Cow<'static, str>,
}

impl PutRefusal {
    pub(super) fn new(status: u16, why: impl Into<Cow<'static, str>>) -> Self {
        Self { status, why: why.into() }
    }

    pub(super) fn answer(&self) -> FileAnswer {
        let response = Response::new(self.status);
        let response = match self.status {
            // RFC 9110 §12.5.3: what would be taken.
            415 => response.with("accept-encoding", "identity"),
            503 => response.with("retry-after", "5"),
            _ => response,
        };
        text(response, &self.why)
    }
}

impl PutArea {
    /// The folder, which is in that of the site, and how much is in it.
    ///
    /// # Errors
    /// Those of the system, and when it is elsewhere.
    pub(in super::super) fn new(root: &Path, folder: &Path, most: Most) -> io::Result<Self> {
        let (root, folder) = (root.canonicalize()?, folder.canonicalize()?);
        if !folder.is_dir() {
            return Err(io::ErrorKind::NotADirectory.into());
        }
        let outside = || {
            io::Error::other(
                "it is not below the folder that is served, so that nobody could ask for what is there",
            )
        };
        let place = folder.strip_prefix(&root).map_err(|_| outside())?.to_owned();
        let room = AreaRoom { used: size(&folder)?, beside: 0, replaced: BTreeSet::new() };
        Ok(Self { place, most: most.file, total: most.all, room: Mutex::new(room), names: Mutex::default() })
    }

    /// Whether a place below the root is in it.
    pub(super) fn has(&self, names: &[OsString]) -> bool {
        let place: PathBuf = names.iter().collect();
        place.starts_with(&self.place)
    }

    /// Begins a file of this name, or says why not.
    pub(super) fn begin(
        self: &Arc<Self>,
        root: &Arc<Root>,
        names: &[OsString],
        request: &Request,
    ) -> Result<FileDraft, PutRefusal> {
        let is_itself = names.iter().collect::<PathBuf>() == self.place;
        let Some((name, folders)) = names.split_last().filter(|(name, _)| !name.is_empty() && !is_itself)
        else {
            return Err(conflict("This is a folder, and not to be replaced.\n"));
        };
        // §14.5: whoever means a part does not mean that it is the whole.
        if request.field("content-range").is_some() {
            return Err(PutRefusal::new(400, "Files are put whole, not by parts.\n"));
        }
        // §8.4: it would be served without that.
        if field(request, "content-encoding")
            .is_some_and(|coding| !coding.trim().eq_ignore_ascii_case("identity"))
        {
            return Err(PutRefusal::new(415, "Files are put as they are, not encoded.\n"));
        }
        let declared = field(request, "content-length").and_then(|length| length.trim().parse::<u64>().ok());
        if declared.is_some_and(|length| length > self.most) {
            return Err(self.too_large());
        }
        let folders: PathBuf = folders.iter().collect();
        let found = Beneath::find(root, &folders).filter(|found| found.kind() == EntryKind::Folder);
        let Some(found) = found else { return Err(conflict("There is no such folder.\n")) };
        if !found.is_in(&self.place) {
            return Err(PutRefusal::new(403, "Nothing may be put there.\n"));
        }
        let folder = found.folder().map_err(|error| failed(name, &error))?;
        let asked = PutConditions::of(request);
        let old = asked.check(&folder, name)?;
        let (file, hidden) = made(&folder).map_err(|error| failed(name, &error))?;
        let area = self.clone();
        let (beside, replaces) = old.map_or((0, None), |old| self.claim(old));
        let name = name.clone();
        let mut draft =
            FileDraft { area, folder, name, asked, file, hidden, len: 0, reserved: 0, beside, replaces };
        // There is no use in beginning what cannot be.
        draft.reserve(declared.unwrap_or_default())?;
        Ok(draft)
    }

    fn too_large(&self) -> PutRefusal {
        PutRefusal::new(413, format!("A file may have {} bytes at most.\n", self.most))
    }

    fn room(&self) -> MutexGuard<'_, AreaRoom> {
        self.room.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The room of a file that is to be replaced, as much of it as a draft may have beside that file, and
    /// whose it is.
    fn claim(&self, old: Old) -> (u64, Option<FileId>) {
        let mut room = self.room();
        let most = blocks(self.most);
        let beside = old.takes.min(most.saturating_sub(room.beside));
        if beside == 0 || !room.replaced.insert(old.id) {
            return (0, None);
        }
        room.beside += beside;
        (beside, Some(old.id))
    }

    /// Takes room and gives room back. False, and nothing is done, when there would be too little.
    fn change(&self, add: u64, give: u64) -> bool {
        let mut room = self.room();
        let sum = room.used.saturating_sub(give).saturating_add(add);
        let fits = add <= give || sum <= self.total;
        if fits {
            room.used = sum;
        }
        fits
    }
}

impl FileDraft {
    /// Adds to it. Waits for the disk.
    pub(in super::super) fn write(&mut self, data: &[u8]) -> Result<(), PutRefusal> {
        let len = self.len + data.len() as u64;
        if len > self.area.most {
            return Err(self.area.too_large());
        }
        self.reserve(len)?;
        self.file.write_all(data).map_err(|error| failed(&self.name, &error))?;
        self.len = len;
        Ok(())
    }

    /// All is there: it takes its name, if the conditions still hold, and is on the disk. Whether there was
    /// none of that name before, and the file.
    pub(in super::super) fn commit(mut self) -> Result<(bool, File), PutRefusal> {
        // The bytes before the name: after a crash there is the old file or the new one, and none that is
        // empty.
        let file = self.file.sync_all().and_then(|()| self.file.try_clone());
        let file = file.map_err(|error| failed(&self.name, &error))?;
        let area = self.area.clone();
        let _alone = area.names.lock().unwrap_or_else(PoisonError::into_inner);
        let before = self.asked.check(&self.folder, &self.name)?;
        // What goes may be another file than the one that was there, and smaller.
        let (add, give) = (self.reserved - self.counted(), before.map_or(0, |old| old.takes));
        if !area.change(add, give) {
            return Err(full());
        }
        if let Err(error) = self.take_name(before.is_none()) {
            let mut room = area.room();
            room.used = room.used.saturating_sub(add).saturating_add(give);
            return Err(match error {
                Errno::EXIST => precondition_failed(),
                error => failed(&self.name, &error.into()),
            });
        }
        // The room that it has is a file's now.
        self.reserved = 0;
        // Who is told that it is there finds it there, whatever happens.
        rustix::fs::fsync(&self.folder).map_err(|error| failed(&self.name, &error.into()))?;
        Ok((before.is_none(), file))
    }

    fn take_name(&mut self, is_new: bool) -> Result<(), Errno> {
        if self.hidden.is_none() {
            self.hidden = Some(linked(&self.file, &self.folder)?);
        }
        let Some(hidden) = &self.hidden else { return Ok(()) };
        // Others than this server may write there, too: who wants to make a file replaces none.
        let only_new = is_new && self.asked.no_tags.as_deref().is_some_and(|tags| tags.trim() == "*");
        renamed(&self.folder, hidden, &self.name, only_new)?;
        self.hidden = None;
        Ok(())
    }

    /// Takes room for so many bytes in all.
    fn reserve(&mut self, len: u64) -> Result<(), PutRefusal> {
        let (want, counted) = (blocks(len), self.counted());
        if want > self.reserved {
            if !self.area.change(want.saturating_sub(self.beside) - counted, 0) {
                return Err(full());
            }
            self.reserved = want;
        }
        Ok(())
    }

    /// The room that it takes beyond that of the file which it replaces.
    fn counted(&self) -> u64 {
        self.reserved.saturating_sub(self.beside)
    }
}

impl Drop for FileDraft {
    fn drop(&mut self) {
        if let Some(hidden) = &self.hidden {
            let _ = rustix::fs::unlinkat(&self.folder, hidden, AtFlags::empty());
        }
        let mut room = self.area.room();
        room.used = room.used.saturating_sub(self.counted());
        room.beside = room.beside.saturating_sub(self.beside);
        if let Some(replaced) = &self.replaces {
            room.replaced.remove(replaced);
        }
    }
}

impl PutConditions {
    fn of(request: &Request) -> Self {
        let owned = |name| field(request, name).map(Cow::into_owned);
        let [tags, no_tags, unmodified_since] =
            ["if-match", "if-none-match", "if-unmodified-since"].map(owned);
        Self { tags, no_tags, unmodified_since }
    }

    /// Whether a file may take this name: the one that has it, if there is one.
    fn check(&self, folder: &OwnedFd, name: &OsStr) -> Result<Option<Old>, PutRefusal> {
        let flags = LOOK | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let found = match rustix::fs::openat(folder, name, flags, Mode::empty()) {
            Ok(found) => Some(File::from(found).metadata().map_err(|error| failed(name, &error))?),
            Err(Errno::NOENT) => None,
            Err(Errno::LOOP) => return Err(conflict(OTHER)),
            Err(Errno::NAMETOOLONG | Errno::ILSEQ | Errno::INVAL) => {
                return Err(PutRefusal::new(400, "The system has no files of this name.\n"));
            }
            Err(error) => return Err(failed(name, &error.into())),
        };
        if found.as_ref().is_some_and(|found| !found.is_file()) {
            return Err(conflict(OTHER));
        }
        let selected = found.as_ref().map(|found| FileVersion::of(found).select(None, SystemTime::now()));
        let conditions = RequestConditions {
            if_match: self.tags.as_deref(),
            if_none_match: self.no_tags.as_deref(),
            if_unmodified_since: self.unmodified_since.as_deref(),
            ..RequestConditions::default()
        };
        if !condition::may_change(&conditions, selected.as_ref()) {
            return Err(precondition_failed());
        }
        Ok(found.map(|found| Old { id: (found.dev(), found.ino()), takes: blocks(found.len()) }))
    }
}

/// A file in this folder: of no name, or else of a hidden one that nobody has.
fn made(folder: &OwnedFd) -> io::Result<(File, Option<OsString>)> {
    // As programs make files: how open they are is for whoever started the server to say (umask).
    let mode = Mode::from_raw_mode(0o666);
    #[cfg(target_os = "linux")]
    if Path::new(OPEN_FILES).is_dir() {
        match rustix::fs::openat(folder, ".", OFlags::TMPFILE | OFlags::WRONLY | OFlags::CLOEXEC, mode) {
            Ok(file) => return Ok((file.into(), None)),
            // Not all file systems have it (open(2)).
            Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::NOENT | Errno::INVAL) => {}
            Err(error) => return Err(error.into()),
        }
    }
    hidden(folder, mode).map(|(file, name)| (file, Some(name)))
}

/// A file of a hidden name that nobody has.
fn hidden(folder: &OwnedFd, mode: Mode) -> io::Result<(File, OsString)> {
    let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    loop {
        let hidden = next_hidden();
        match rustix::fs::openat(folder, &hidden, flags, mode) {
            Err(Errno::EXIST) => {}
            made => return Ok((made?.into(), hidden)),
        }
    }
}

/// Gives a file that has no name a hidden one.
#[cfg(target_os = "linux")]
fn linked(file: &File, folder: &OwnedFd) -> Result<OsString, Errno> {
    use std::os::fd::AsRawFd as _;
    let open = format!("{OPEN_FILES}/{}", file.as_raw_fd());
    loop {
        let hidden = next_hidden();
        match rustix::fs::linkat(rustix::fs::CWD, &*open, folder, &hidden, AtFlags::SYMLINK_FOLLOW) {
            Err(Errno::EXIST) => {}
            linked => return linked.map(|()| hidden),
        }
    }
}

#[cfg(not(target_os = "linux"))]
fn linked(_: &File, _: &OwnedFd) -> Result<OsString, Errno> {
    unreachable!("files have names from the start")
}

/// Gives a file another name, of one that is there or, if there must be none, in no case.
fn renamed(folder: &OwnedFd, from: &OsStr, to: &OsStr, only_new: bool) -> Result<(), Errno> {
    #[cfg(target_os = "linux")]
    if only_new {
        use rustix::fs::{RenameFlags, renameat_with};
        match renameat_with(folder, from, folder, to, RenameFlags::NOREPLACE) {
            // Not all file systems can tell: it was looked for just before.
            Err(Errno::INVAL | Errno::NOSYS) => {}
            renamed => return renamed,
        }
    }
    let _ = only_new;
    rustix::fs::renameat(folder, from, folder, to)
}

/// Another one each time.
fn next_hidden() -> OsString {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    format!(".quickset-put-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed)).into()
}

/// What all files below a folder take.
fn size(folder: &Path) -> io::Result<u64> {
    let (mut folders, mut sum) = (vec![folder.to_owned()], 0_u64);
    while let Some(folder) = folders.pop() {
        for entry in folder.read_dir()? {
            let entry = entry?;
            // Of links, the links.
            let metadata = entry.metadata()?;
            if metadata.is_dir() {
                folders.push(entry.path());
            }
            sum = sum.saturating_add(blocks(metadata.len()));
        }
    }
    Ok(sum)
}

/// What a file of this length takes: none takes nothing, or there could be as many as the system has.
fn blocks(len: u64) -> u64 {
    len.max(1).div_ceil(BLOCK).saturating_mul(BLOCK)
}

fn conflict(why: &'static str) -> PutRefusal {
    PutRefusal::new(409, why)
}

fn precondition_failed() -> PutRefusal {
    PutRefusal::new(412, "It is not as you expect.\n")
}

/// RFC 4918 §11.5.
fn full() -> PutRefusal {
    PutRefusal::new(507, "There is no room for it.\n")
}

/// What the system refuses.
fn failed(name: &OsStr, error: &io::Error) -> PutRefusal {
    let errno = error.raw_os_error().map(Errno::from_raw_os_error);
    if matches!(errno, Some(Errno::NOSPC | Errno::DQUOT)) {
        return full();
    }
    tracing::warn!(file = %Path::new(name).display(), %error, "a file cannot be put");
    match errno {
        Some(Errno::ACCESS | Errno::PERM | Errno::ROFS) => {
            PutRefusal::new(403, "The server may not write there.\n")
        }
        _ if is_passing(error) => {
            PutRefusal::new(503, "The server cannot write it at the moment. Ask again soon.\n")
        }
        _ => PutRefusal::new(500, "The server cannot write it.\n"),
    }
}

const OTHER: &str = "What has this name is no file.\n";

/// Looks at what has a name, and does not open it.
#[cfg(target_os = "linux")]
const LOOK: OFlags = OFlags::PATH;
#[cfg(not(target_os = "linux"))]
const LOOK: OFlags = OFlags::NONBLOCK;

#[cfg(target_os = "linux")]
const OPEN_FILES: &str = "/proc/self/fd";

/// Bytes in which most file systems give room.
const BLOCK: u64 = 4096;

#[cfg(test)]
mod tests {
    use super::*;

    fn request(path: &'static str) -> Request {
        Request::new("PUT", "localhost", path)
    }

    fn area(folder: &Path, all: u64) -> Arc<PutArea> {
        std::fs::create_dir_all(folder.join("put")).unwrap();
        Arc::new(PutArea::new(folder, &folder.join("put"), Most { file: 100_000, all }).unwrap())
    }

    fn begun(area: &Arc<PutArea>, folder: &Path) -> Result<FileDraft, PutRefusal> {
        named(area, folder, "file")
    }

    fn named(area: &Arc<PutArea>, folder: &Path, name: &str) -> Result<FileDraft, PutRefusal> {
        let root = Arc::new(Root::open(folder).unwrap());
        area.begin(&root, &["put".into(), name.into()], &request("/put/file"))
    }

    /// A draft of so many blocks.
    fn draft(area: &Arc<PutArea>, folder: &Path, name: &str, count: u64) -> Result<FileDraft, PutRefusal> {
        let mut draft = named(area, folder, name)?;
        draft.write(&vec![7; (count * BLOCK) as usize])?;
        Ok(draft)
    }

    /// Where the system has no files without names.
    #[test]
    fn a_file_of_a_hidden_name_takes_another_or_goes_away() {
        let folder = tempfile::tempdir().unwrap();
        let area = area(folder.path(), 1 << 20);
        let names = || folder.path().join("put").read_dir().unwrap().count();
        for is_whole in [false, true] {
            let mut draft = begun(&area, folder.path()).unwrap();
            let (file, name) = hidden(&draft.folder, Mode::RUSR).unwrap();
            (draft.file, draft.hidden) = (file, Some(name));
            draft.write(b"content").unwrap();
            assert_eq!(names(), 1);
            if is_whole {
                assert!(draft.commit().unwrap().0);
            } else {
                drop(draft);
                assert_eq!(names(), 0);
            }
        }
        assert_eq!(std::fs::read(folder.path().join("put/file")).unwrap(), b"content");
        assert_eq!(names(), 1);
    }

    /// A folder that is moved away, with a link in its place, while a file comes.
    #[test]
    fn what_becomes_of_names_meanwhile_leads_nowhere_else() {
        let folder = tempfile::tempdir().unwrap();
        let area = area(folder.path(), 1 << 20);
        let mut draft = begun(&area, folder.path()).unwrap();
        std::fs::create_dir(folder.path().join("secret")).unwrap();
        std::fs::rename(folder.path().join("put"), folder.path().join("moved")).unwrap();
        std::os::unix::fs::symlink("secret", folder.path().join("put")).unwrap();
        draft.write(b"content").unwrap();
        draft.commit().unwrap();
        assert_eq!(std::fs::read(folder.path().join("moved/file")).unwrap(), b"content");
        assert_eq!(folder.path().join("secret").read_dir().unwrap().count(), 0);
        assert!(begun(&area, folder.path()).is_err());
    }

    #[test]
    fn room_is_counted_by_what_is_there_and_on_its_way() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(folder.path().join("put/deep")).unwrap();
        std::fs::write(folder.path().join("put/deep/file"), vec![0; 5000]).unwrap();
        let area = area(folder.path(), 8 * BLOCK);
        let used = || area.room().used / BLOCK;
        // A folder and two blocks of a file.
        assert_eq!(used(), 3);
        let mut first = begun(&area, folder.path()).unwrap();
        first.write(&[1; 5000]).unwrap();
        let mut second = begun(&area, folder.path()).unwrap();
        second.write(&[2; 4096]).unwrap();
        assert_eq!(used(), 6);
        assert_eq!(second.write(&[2; 12_288]).unwrap_err().status, 507);
        first.commit().unwrap();
        assert_eq!(used(), 6);
        second.commit().unwrap();
        assert_eq!(used(), 4, "the first one has gone");
        let refused = begun(&area, folder.path()).unwrap().write(&vec![0; 100_001]).unwrap_err();
        assert_eq!((refused.status, used()), (413, 4));
    }

    /// What counts is what is there in the end, by all ways to it.
    #[test]
    fn a_file_is_replaced_in_its_own_room() {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path();
        let area = area(place, 8 * BLOCK);
        let draft = |name, count| draft(&area, place, name, count);
        let used = || area.room().used / BLOCK;
        let settled = || {
            let room = area.room();
            assert_eq!((room.beside, room.replaced.len()), (0, 0));
            assert_eq!(room.used, size(&place.join("put")).unwrap());
        };
        draft("file", 5).unwrap().commit().unwrap();
        settled();
        let new = draft("file", 6).unwrap();
        assert_eq!(used(), 6);
        // Another that replaces the same file cannot have its room again.
        assert_eq!(draft("file", 3).unwrap_err().status, 507);
        new.commit().unwrap();
        settled();
        // Nor is there any of a file that may stay.
        let smaller = draft("file", 1).unwrap();
        assert_eq!(used(), 6);
        assert_eq!(draft("other", 3).unwrap_err().status, 507);
        drop(smaller);
        settled();
        assert_eq!(used(), 6);
        // Whose room it was has gone meanwhile, and others have it.
        let (late, first) = (draft("file", 6).unwrap(), draft("file", 1).unwrap());
        first.commit().unwrap();
        draft("other", 7).unwrap().commit().unwrap();
        assert_eq!(late.commit().unwrap_err().status, 507);
        settled();
        assert_eq!(used(), 8);
    }

    /// Old files and new ones are on the disk together for a while: by the largest file more than may stay.
    #[test]
    fn what_is_on_the_disk_meanwhile_is_bounded() {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path();
        std::fs::create_dir_all(place.join("put")).unwrap();
        let most = Most { file: 3 * BLOCK, all: 8 * BLOCK };
        let area = Arc::new(PutArea::new(place, &place.join("put"), most).unwrap());
        let draft = |name, count| draft(&area, place, name, count);
        for name in ["a", "b"] {
            draft(name, 3).unwrap().commit().unwrap();
        }
        let first = draft("a", 3).unwrap();
        // 6 of files, 3 of the first, 2 of this.
        assert_eq!(draft("b", 3).unwrap_err().status, 507);
        let second = draft("b", 2).unwrap();
        assert_eq!(draft("c", 1).unwrap_err().status, 507);
        first.commit().unwrap();
        second.commit().unwrap();
        assert_eq!(area.room().used, 5 * BLOCK);
        assert_eq!(size(&place.join("put")).unwrap(), 5 * BLOCK);
    }
}
