"""Read and write files safely. A file that is read may come from anybody; only a regular file is ever replaced.

Read: regular files of a bounded size (a pipe is never waited for, a device never read), JSON of a bounded depth with
each key once and whole numbers that fit a float. Written: next to the target under a unique name, flushed, then
renamed, so that a file is complete or absent and two writers do not collide.
"""

import contextlib
import errno
import json
import os
import secrets
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from walkback.errors import RecordError

Content = bytes | Iterable[bytes]  # of a file: all of it, or piece by piece
LARGEST = 64 << 20  # bytes of a text file: a log of 100,000 entries is smaller
DEEPEST = 64  # lists and objects inside each other
DIGITS = 309  # of a whole number: more do not fit a float
KINDS = {
    stat.S_IFDIR: "a folder", stat.S_IFIFO: "a pipe", stat.S_IFSOCK: "a socket", stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device", stat.S_IFLNK: "a symbolic link that leads back to itself",
}  # fmt: skip


class Torn(RecordError):
    """Text that is not complete JSON, such as a line that was cut off."""


# --- reading ----------------------------------------------------------------------------------------------------------


def is_folder(path: Path) -> bool:
    """Whether it is a folder; False for a name that no file system accepts."""
    try:
        return path.is_dir()
    except (OSError, ValueError):
        return False


def check_regular(path: Path | str, most: int | None = None) -> int:
    """The size of a file. Refused: anything but a regular file of bounded size; `FileNotFoundError` if it does not
    exist."""
    found = os.stat(path)  # noqa: PTH116 - thousands are looked at, and a Path takes longer than the system
    if not stat.S_ISREG(found.st_mode):
        kind = KINDS.get(stat.S_IFMT(found.st_mode), "no file")
        raise RecordError(f"cannot read {path}: it is {kind}, not a file", "name a regular file, or put one there")
    if most is not None and found.st_size > most:
        size = f"{found.st_size / 2**20:,.0f} MB, and at most {most >> 20} MB are read"
        raise RecordError(f"cannot read {path}: it has {size}", "make sure it is the right file; shorten it if it is")
    return found.st_size


def read_bytes(path: Path | str, most: int = LARGEST) -> bytes:
    """The content of a regular file. `FileNotFoundError` if it does not exist; any other failure is a `RecordError`."""
    try:
        check_regular(path, most)
        with open(path, "rb", buffering=0, opener=_without_waiting) as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise OSError(errno.EIO, "it was replaced by something that is no file")
            return file.readall()
    except FileNotFoundError:
        raise
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        remedies = {
            errno.EACCES: "get permission to read it",
            errno.ELOOP: "a symbolic link leads back to itself: put the file in its place",
            errno.ENOTDIR: "a file is where a folder should be: check the path",
            errno.ENAMETOOLONG: "check the path: it is longer than the file system allows",
        }
        number = error.errno if isinstance(error, OSError) else None
        words = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        remedy = remedies.get(number or 0, "make sure that it is a file and can be read")
        raise RecordError(f"cannot read {path}: {words}", remedy) from error


def _without_waiting(path: str, flags: int) -> int:
    """Open without blocking: a pipe may have replaced the file since it was checked."""
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))


class NotText(ValueError):
    """Bytes that are not UTF-8."""


def decoded(content: bytes) -> str:
    """Text in UTF-8, with or without a byte-order mark; otherwise a `NotText` that says where."""
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise NotText(f"byte {error.start} is not UTF-8") from None


def parse_json(content: bytes, where: str, remedy: str, digits: int = DIGITS) -> Any:
    """The content of a JSON file. Refused: incomplete text, repeated keys, too many digits or levels."""

    def whole_number(text: str) -> int:
        if len(text.lstrip("-")) > digits:
            raise ValueError(f"a whole number of {len(text)} digits, and at most {digits} can be meant")
        return int(text)

    try:
        raw = json.loads(decoded(content), parse_int=whole_number, object_pairs_hook=_each_once)
        if content.count(b"[") + content.count(b"{") > DEEPEST:
            check_depth(raw)
    except RecursionError:
        raise RecordError(f"{where} is not valid JSON (it is nested more than {DEEPEST} deep)", remedy) from None
    except ValueError as error:
        if other := _other_kind(content):
            raise RecordError(f"{where} is {other[0]}, not JSON", other[1]) from None
        # A repeated key or an impossible number does not mean that the text was cut off.
        kind = Torn if isinstance(error, (json.JSONDecodeError, NotText)) else RecordError
        raise kind(f"{where} is not valid JSON ({error})", remedy) from error
    return raw


def _other_kind(content: bytes) -> tuple[str, str] | None:
    """What a file that is no JSON is, by its first bytes, and what to do; None if that cannot be told."""
    starts = {
        b"\x1f\x8b": ("a gzip file", "unpack it first, as with gunzip"),
        b"PK\x03\x04": ("a zip archive (or .npz, .pt)", "unpack it, and write the numbers as JSON"),
        b"\x93NUMPY": ("a numpy array", "write the numbers as JSON"),
        b"\x80": ("a pickle", "write the numbers as JSON: nothing is unpickled here"),
        b"\xff\xfe": ("text in UTF-16", "save it as UTF-8"),
        b"\xfe\xff": ("text in UTF-16", "save it as UTF-8"),
    }
    found = next((kind for start, kind in starts.items() if content.startswith(start)), None)
    first = content.lstrip()[:1]
    if found is None and first and first not in b'{["-0123456789tfnNI\xef' and b"\x00" not in content[:100]:
        return "some other text (a table, a page?)", "give JSON; a table's rows can be the entries of a log"
    return found


def _each_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    table = dict(pairs)
    if len(table) < len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        raise ValueError(f"the key {twice[:60]!r} is there twice; keep one of them")
    return table


def check_depth(raw: Any) -> None:
    """Raise a `RecursionError` where lists and objects are inside each other more than `DEEPEST` deep."""
    level, depth = [raw] if isinstance(raw, dict | list) else [], 0
    while level:
        depth += 1
        if depth > DEEPEST:
            raise RecursionError
        inside = [thing.values() if isinstance(thing, dict) else thing for thing in level]
        level = [thing for things in inside for thing in things if isinstance(thing, dict | list)]


# --- writing ----------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def writing(what: Path) -> Iterator[None]:
    """Turn failures of the machine into errors that name the cause and the remedy."""
    try:
        yield
    except OSError as error:
        again = {
            errno.ENOSPC: "free some space there", errno.EDQUOT: "free some of your quota there",
            errno.EFBIG: "raise the limit on the size of files",
        }  # fmt: skip
        elsewhere = {
            errno.EACCES: "get write permission there, or", errno.EPERM: "get write permission there, or",
            errno.EROFS: "the file system is read-only:", errno.ENOTDIR: "a file is where a folder should be:",
            errno.EEXIST: "a file is where a folder should be:", errno.EISDIR: "a folder is where a file should be:",
            errno.ELOOP: "a symbolic link leads back to itself:",
            errno.ENAMETOOLONG: "the name is longer than the file system allows:",
        }  # fmt: skip
        remedy = "remove the cause and give the same command again"
        if words := again.get(error.errno or 0):
            remedy = f"{words} and give the same command again; nothing that was written before is lost"
        elif words := elsewhere.get(error.errno or 0):
            remedy = f"{words} choose another place with --out or --to"
        raise RecordError(f"cannot write {what}: {error.strerror or error}", remedy) from error


def make_folder(path: Path) -> None:
    """Create a folder to write into, and its parents."""
    with writing(path):
        path.mkdir(parents=True, exist_ok=True)


def write_whole(path: Path, content: Content, previous: Path | None = None, *, follow: bool = True) -> None:
    """Write a file completely or not at all, even after a power cut; the old one can stay as `previous`.

    follow   whether a symbolic link is followed: the file behind it is replaced or created; the link stays. In a run's
             folder, which may be a stranger's, the link itself is replaced, so that nothing outside changes.
    """
    with writing(path):
        replace_whole(path, content, previous, follow=follow)


def replace_whole(path: Path, content: Content, previous: Path | None = None, *, follow: bool = True) -> None:
    """`write_whole`, but failures of the machine are an `OSError`."""
    target = Path(os.path.realpath(path)) if follow else path
    mode = _replaceable(target, path, follow)
    # A unique name, shorter than any limit; 0o666 is narrowed by the user's umask.
    temporary = target.with_name(f".{target.name[:40]}.{os.getpid()}-{secrets.token_hex(4)}.part")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o666)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.writelines([content] if isinstance(content, bytes) else content)
            file.flush()
            os.fsync(file.fileno())
        if mode is not None:
            temporary.chmod(mode)
        if previous is not None and target.exists():
            target.replace(previous)
        temporary.replace(target)
    except BaseException:  # also an interrupt
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise


def _replaceable(target: Path, named: Path, follow: bool) -> int | None:
    """The permissions of the file to replace, None if it does not exist; anything but a regular file is refused."""
    try:
        mode = target.lstat().st_mode
    except FileNotFoundError:
        return None
    if stat.S_ISREG(mode):
        return stat.S_IMODE(mode)
    if stat.S_ISLNK(mode) and not follow:
        return None
    leads = f"leads to {target}, " if target != named and named.is_symlink() else "is "
    kind = KINDS.get(stat.S_IFMT(mode), "no file")
    raise RecordError(
        f"cannot write {named}: it {leads}{kind}, and only a regular file is replaced",
        "name a file with --out or --to" if kind != "a folder" else "name a file inside that folder",
    )


def append(path: Path, content: bytes) -> None:
    """Append to a regular file, which is created if it does not exist. A link is not followed."""
    with writing(path):
        _replaceable(path, path, follow=True)
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | getattr(os, "O_BINARY", 0) | getattr(os, "O_NOFOLLOW", 0)
        with os.fdopen(os.open(path, flags, 0o666), "ab") as file:
            file.write(content)


def flush(path: Path) -> None:
    """Make the system write to the disk what was appended."""
    with writing(path), path.open("ab") as file:
        os.fsync(file.fileno())


def keep_old(path: Path) -> None:
    """Rename what is there, so that another may take its place: to NAME.old1, or the next number that is free."""
    number = 1
    while (aside := path.with_name(f"{path.name}.old{number}")).exists():
        number += 1
    path.rename(aside)


def sweep(folder: Path) -> None:
    """Remove unfinished files of killed writers from a folder that nobody else writes to now."""
    for left in folder.glob(".*.part"):
        with contextlib.suppress(OSError):
            left.unlink()
