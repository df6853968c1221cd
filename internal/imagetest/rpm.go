package imagetest

import (
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"
)

// rpmdb makes the file a database of rpm in the format ndb (rpmpkg.c): pages with a
// header and slots, followed by the packages' headers.
func (f *File) rpmdb(rest, body string) error {
	if rest != "" {
		return nothing(rest)
	}
	slots := []byte("RpmP\x00\x00\x00\x00\x01\x00\x00\x00\x01\x00\x00\x00")
	slots = append(slots, make([]byte, 16)...)
	var headers []byte
	const page, block = 4096, 16
	le := binary.LittleEndian
	perPage := page / block
	pages := (strings.Count(body, "\n") + 3 + perPage - 1) / perPage
	le.PutUint32(slots[12:], uint32(pages))
	for line := range strings.Lines(body) {
		name, version := cutWord(line)
		if name == "" {
			continue
		}
		header, err := rpmHeader(name, version)
		if err != nil {
			return err
		}
		number := uint32(len(slots)/block - 1)
		size := (len(header) + 28 + block - 1) / block // with the bytes before and after it
		at := (pages*page + len(headers)) / block
		slots = append(slots, "Slot"...)
		for _, n := range []int{int(number), at, size} {
			slots = le.AppendUint32(slots, uint32(n))
		}
		blob := le.AppendUint32([]byte("BlbS"), number)
		blob = le.AppendUint32(blob, 1)
		blob = le.AppendUint32(blob, uint32(len(header)))
		blob = append(blob, header...)
		headers = append(headers, blob...)
		headers = append(headers, make([]byte, size*block-len(blob))...)
	}
	for len(slots) < pages*page {
		slots = append(slots, "Slot\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"...)
	}
	f.setData(string(slots) + string(headers))
	return nil
}

// rpmHeader returns a package's header with its epoch, name, version and release.
func rpmHeader(name, version string) ([]byte, error) {
	epoch, rest, ok := strings.Cut(version, ":")
	if !ok {
		epoch, rest = "0", version
	}
	number, err := strconv.ParseUint(epoch, 10, 32)
	dash := strings.LastIndexByte(rest, '-')
	if err != nil || dash < 0 {
		return nil, fmt.Errorf("%s: %q is no [EPOCH:]VERSION-RELEASE", name, version)
	}
	be := binary.BigEndian
	const text, int32s = 6, 4
	var entries []byte
	store := be.AppendUint32(nil, uint32(number))
	entry := func(tag, kind, at int) {
		for _, n := range []int{tag, kind, at, 1} {
			entries = be.AppendUint32(entries, uint32(n))
		}
	}
	for i, s := range []string{name, rest[:dash], rest[dash+1:]} {
		entry(1000+i, text, len(store))
		store = append(append(store, s...), 0)
	}
	entry(1003, int32s, 0)
	header := be.AppendUint32(nil, uint32(len(entries)/16))
	header = be.AppendUint32(header, uint32(len(store)))
	return append(append(header, entries...), store...), nil
}
