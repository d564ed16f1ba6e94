"""What file system a path lies on, and whether it is one that several machines share."""

import re
from pathlib import Path

_MOUNTS = Path("/proc/self/mountinfo")  # Linux; elsewhere nothing is known
_NETWORKED = {
    *("9p", "acfs", "afs", "beegfs", "ceph", "cifs", "cvmfs", "fhgfs", "fuse.ceph"),
    *("fuse.glusterfs", "fuse.s3fs", "fuse.sshfs", "gfs", "gfs2", "glusterfs", "gpfs", "lustre"),
    *("ncpfs", "nfs", "nfs3", "nfs4", "ocfs2", "orangefs", "panfs", "pvfs2", "smb2", "smb3"),
    *("smbfs", "vboxsf", "virtiofs", "wekafs"),
}


def network_file_system(path: Path) -> str | None:
    """The kind of network file system that a path lies on, there or not yet; None for any other."""
    kind = _kind(path)
    return kind if kind in _NETWORKED else None


def _kind(path: Path) -> str | None:
    """The type of the file system mounted nearest above a path."""
    try:
        lines = _MOUNTS.read_text(encoding="utf-8", errors="replace").splitlines()
        real = path.resolve()
    except (OSError, RuntimeError):  # no such list here, or a loop of links
        return None
    found: dict[Path, str] = {}
    for line in lines:
        own, _, rest = line.partition(" - ")  # optional fields end at the dash
        fields, kind = own.split(" "), rest.split(" ")[0]
        if len(fields) > 4 and kind:
            found[_unescaped(fields[4])] = kind  # what is mounted later hides what was before
    return next((found[each] for each in (real, *real.parents) if each in found), None)


def _unescaped(text: str) -> Path:
    """A mount point as it is called: spaces and the like are written as \\040 in the list."""
    return Path(re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), text))
