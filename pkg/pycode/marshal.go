package pycode

import (
	"encoding/binary"
	"math"
)

// Bounds of the objects in a file.
const (
	maxObjects = 1 << 20
	maxNesting = 60
)

// reader reads objects as marshal does (Python/marshal.c, r_object). Objects that imports
// do not need are skipped: their value is nil.
type reader struct {
	data    []byte
	version *version
	refs    []any
	count   int
	bad     bool
}

// code is a code object, as far as imports need it.
type code struct {
	text       []byte
	consts     []any
	names      []any
	exceptions []byte // the exception table
	first      int    // the first line
	lines      []byte // the table of lines
}

func (u *reader) fail() any {
	u.bad = true
	u.data = nil
	return nil
}

func (u *reader) take(n int) []byte {
	if n < 0 || n > len(u.data) {
		u.fail()
		return nil
	}
	b := u.data[:n]
	u.data = u.data[n:]
	return b
}

func (u *reader) long() int {
	b := u.take(4)
	if b == nil {
		return 0
	}
	return int(int32(binary.LittleEndian.Uint32(b)))
}

func (u *reader) short() int {
	b := u.take(1)
	if b == nil {
		return 0
	}
	return int(b[0])
}

// object reads an object. Each takes a byte at least, so that the file bounds their number.
func (u *reader) object(depth int) any {
	b := u.take(1)
	if u.count++; b == nil || u.bad || depth > maxNesting || u.count > maxObjects {
		return u.fail()
	}
	ref := -1
	if b[0]&0x80 != 0 {
		ref = len(u.refs)
		u.refs = append(u.refs, nil)
	}
	v := u.value(b[0]&0x7f, depth)
	if ref >= 0 && ref < len(u.refs) {
		u.refs[ref] = v
	}
	return v
}

func (u *reader) value(kind byte, depth int) any {
	switch kind {
	case '0', 'N', 'S', '.':
		return nil
	case 'T', 'F':
		return kind == 'T'
	case 'i':
		return u.long()
	case 'I':
		u.take(8)
	case 'f':
		u.take(u.short())
	case 'g':
		u.take(8)
	case 'x':
		u.take(u.short())
		u.take(u.short())
	case 'y':
		u.take(16)
	case 'l':
		n := u.long()
		if n < 0 {
			n = -n
		}
		if n > math.MaxInt32/2 {
			return u.fail()
		}
		u.take(2 * n)
	case 's':
		return u.take(u.long())
	case 't', 'u', 'a', 'A':
		return string(u.take(u.long()))
	case 'z', 'Z':
		return string(u.take(u.short()))
	case '(', '[', '<', '>':
		return u.list(u.long(), depth)
	case ')':
		return u.list(u.short(), depth)
	case '{':
		u.dict(depth)
	case ':':
		return u.list(3, depth)
	case 'c':
		return u.code(depth)
	case 'r':
		if n := u.long(); n >= 0 && n < len(u.refs) {
			return u.refs[n]
		}
		return u.fail()
	default:
		return u.fail()
	}
	return nil
}

func (u *reader) list(n, depth int) any {
	if n < 0 || n > len(u.data) {
		return u.fail()
	}
	list := make([]any, 0, min(n, 1<<10))
	for range n {
		list = append(list, u.object(depth+1))
		if u.bad {
			return nil
		}
	}
	return list
}

// dict skips a dict: its last key is NULL.
func (u *reader) dict(depth int) {
	for !u.bad && len(u.data) > 0 {
		if u.data[0]&0x7f == '0' {
			u.take(1)
			return
		}
		u.object(depth + 1)
		u.object(depth + 1)
	}
}

// code reads a code object.
func (u *reader) code(depth int) any {
	c := &code{}
	for range u.version.ints {
		u.long()
	}
	c.text, _ = u.object(depth + 1).([]byte)
	c.consts, _ = u.object(depth + 1).([]any)
	c.names, _ = u.object(depth + 1).([]any)
	if u.version.minor >= 11 {
		for range 5 { // localsplusnames, localspluskinds, filename, name, qualname
			u.object(depth + 1)
		}
		c.first = u.long()
		c.lines, _ = u.object(depth + 1).([]byte)
		c.exceptions, _ = u.object(depth + 1).([]byte)
	} else {
		for range 5 { // varnames, freevars, cellvars, filename, name
			u.object(depth + 1)
		}
		c.first = u.long()
		c.lines, _ = u.object(depth + 1).([]byte)
	}
	if u.bad {
		return nil
	}
	return c
}
