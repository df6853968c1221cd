package inventory

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"
	"sync"
)

// maxRPM limits the bytes read of an rpm database. UBI's has about 10 MB, and one of
// 1,500 packages 100 MB.
const maxRPM = 128 << 20

// isRPM reports whether a file is an rpm database: SQLite's (Fedora, RHEL 9 and later),
// ndb's (SUSE) or Berkeley DB's (RHEL 8 and earlier).
func isRPM(name string) bool {
	dir, base := path.Split(name)
	return isRPMDir(dir) && (base == "rpmdb.sqlite" || base == "Packages.db" || base == "Packages")
}

// isRPMDir reports whether a directory holds an rpm database: rpm's default, that of
// Fedora and SUSE, or that of ostree.
func isRPMDir(dir string) bool {
	return dir == "var/lib/rpm/" || dir == "usr/lib/sysimage/rpm/" || dir == "usr/share/rpm/"
}

// isRPMLog reports whether a file has changes that may not be in the database yet.
func isRPMLog(name string) bool {
	dir, ok := strings.CutSuffix(name, "rpmdb.sqlite-wal")
	return ok && isRPMDir(dir)
}

// rpmList is the reduced form of a database that [Extract] writes.
type rpmList struct {
	Packages []rpmPackage `json:"packages"`
	Why      string       `json:"why,omitempty"` // why some are missing
}

type rpmPackage struct {
	Name    string `json:"name"`
	Version string `json:"version"`
}

// rpmExtract is the first line of an rpmList. No database begins with it.
const rpmExtract = "imgcheck: packages of rpm\n"

// one allows one database in memory at a time, however many layers are read.
var one sync.Mutex

// Extract returns a function that reduces a file to what [Read] needs of it, or nil if
// the file's bytes are kept. Read returns the same for both. Of Python source it is what
// [pysource.Reduce] returns, of the metadata of a wheel its fields without the description. An rpm database has the file
// lists and change logs of all packages, and each layer that installs something has a
// whole database.
func (x *Extractor) Extract(name string, size int64) func(io.Reader) ([]byte, error) {
	if strings.HasSuffix(name, ".py") && sourceOf(name) == nil {
		return func(r io.Reader) ([]byte, error) { return x.python(r, size) }
	}
	if isMetadata(name) && sourceOf(name) != nil {
		return func(r io.Reader) ([]byte, error) { return x.metadata(r, size) }
	}
	if !isRPM(name) || isCopy(name) || size > maxRPM {
		return nil
	}
	return func(r io.Reader) ([]byte, error) {
		one.Lock()
		defer one.Unlock()
		b := make([]byte, size)
		if _, err := io.ReadFull(r, b); err != nil {
			return nil, err
		}
		text, err := json.Marshal(rpmPackages(b))
		return append([]byte(rpmExtract), text...), err
	}
}

// readRPM reads a database, or its reduced form.
func readRPM(inv *Inventory, name string, b []byte) error {
	var list rpmList
	if text, ok := bytes.CutPrefix(b, []byte(rpmExtract)); !ok {
		list = rpmPackages(b)
	} else if err := json.Unmarshal(text, &list); err != nil {
		return fmt.Errorf("it is not a list of rpm packages: %w", err)
	}
	for _, p := range list.Packages {
		if err := inv.add(&Package{Kind: RPM, Name: p.Name, Version: p.Version, Path: "/" + name}); err != nil {
			return err
		}
	}
	if list.Why != "" {
		return errors.New(list.Why)
	}
	return nil
}

// rpmPackages returns the packages of a database, up to the first that is not valid.
func rpmPackages(b []byte) rpmList {
	list := rpmList{Packages: []rpmPackage{}}
	seen, left := 0, len(b)
	err := rpmRows(b, func(r *row) error {
		seen++
		p, read, err := rpmHeader(r)
		switch left -= read; {
		case err != nil:
			return fmt.Errorf("its package %d: %w", seen, err)
		case left < 0 || seen > maxPackages:
			return errors.New("its packages take more bytes than it has")
		case p.Name != "gpg-pubkey": // rpm lists the keys that packages are signed with
			list.Packages = append(list.Packages, p)
		}
		return nil
	})
	if err != nil {
		list.Why = "not all of the rpm packages are known: " + strings.ToValidUTF8(err.Error(), "?")
	}
	return list
}

// Tags of a header, and the types of their values (rpmtag.h).
const (
	tagName    = 1000
	tagVersion = 1001
	tagRelease = 1002
	tagEpoch   = 1003
	typeInt32  = 4
	typeString = 6
)

// rpmHeader reads the name and [EPOCH:]VERSION-RELEASE from a package's header: the
// number of entries and of bytes, the entries (tag, type, offset, count), and the bytes
// that they point to, all big-endian (headerImport in rpm's header.c). It also returns
// the number of bytes that it read.
func rpmHeader(r *row) (p rpmPackage, read int, err error) {
	intro, err := r.prefix(8)
	if err != nil {
		return p, 0, err
	}
	entries, size := binary.BigEndian.Uint32(intro), binary.BigEndian.Uint32(intro[4:])
	if entries > 1<<16 || int64(8+16*entries)+int64(size) > int64(r.size) {
		return p, 0, errors.New("its header is longer than its row")
	}
	start := 8 + 16*int(entries)
	head, err := r.prefix(start)
	if err != nil {
		return p, 0, err
	}
	version, release, epoch := "", "", uint32(0)
	for e := head[8:]; len(e) > 0; e = e[16:] {
		tag, typ, at := binary.BigEndian.Uint32(e), binary.BigEndian.Uint32(e[4:]), binary.BigEndian.Uint32(e[8:])
		if tag < tagName || tag > tagEpoch {
			continue
		}
		if at >= size {
			return p, 0, errors.New("its header points past its end")
		}
		value, err := r.prefix(start + int(min(size, at+maxText+1)))
		if err != nil {
			return p, 0, err
		}
		value = value[start+int(at):]
		text, _, ended := bytes.Cut(value, []byte{0})
		switch {
		case tag == tagEpoch && typ == typeInt32 && len(value) >= 4:
			epoch = binary.BigEndian.Uint32(value)
			continue
		case tag == tagEpoch || typ != typeString || !ended:
			return p, 0, errors.New("its header has an invalid name or version")
		}
		*map[uint32]*string{tagName: &p.Name, tagVersion: &version, tagRelease: &release}[tag] = strings.ToValidUTF8(string(text), "?")
	}
	if p.Name == "" || version == "" || release == "" {
		return p, 0, errors.New("its header does not name a package and a version")
	}
	p.Version = version + "-" + release
	if epoch != 0 {
		p.Version = fmt.Sprintf("%d:%s", epoch, p.Version)
	}
	return p, len(r.got), nil
}
