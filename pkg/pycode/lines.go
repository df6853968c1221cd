package pycode

// lineOf returns the line of the instruction at an offset, or 0 if it has none: co_lnotab of
// 3.6 to 3.9 (Objects/lnotab_notes.txt), co_linetable of 3.10 (PEP 626) and of later releases
// (Objects/locations.md, InternalDocs/code_objects.md).
func (c *code) lineOf(v *version, offset int) int {
	switch {
	case v.minor < 10:
		return c.lnotab(offset)
	case v.minor == 10:
		return c.linetable(offset)
	}
	return c.locations(offset)
}

func (c *code) lnotab(offset int) int {
	line, at := c.first, 0
	for i := 0; i+1 < len(c.lines); i += 2 {
		if at += int(c.lines[i]); at > offset {
			break
		}
		line += int(int8(c.lines[i+1]))
	}
	return line
}

func (c *code) linetable(offset int) int {
	line, at := c.first, 0
	for i := 0; i+1 < len(c.lines); i += 2 {
		at += int(c.lines[i])
		none := c.lines[i+1] == 0x80
		if !none {
			line += int(int8(c.lines[i+1]))
		}
		switch {
		case at <= offset:
		case none:
			return 0
		default:
			return line
		}
	}
	return 0
}

func (c *code) locations(offset int) int {
	line, at, b := c.first, 0, c.lines
	number := func() int {
		n := 0
		for shift := 0; len(b) > 0 && shift < 30; shift += 6 {
			x := b[0]
			b = b[1:]
			n |= int(x&63) << shift
			if x&64 == 0 {
				break
			}
		}
		return n
	}
	for len(b) > 0 {
		kind := b[0] >> 3 & 15
		at += 2 * (int(b[0]&7) + 1)
		b = b[1:]
		skip := 0
		switch {
		case kind == 15:
		case kind >= 13:
			n := number()
			if n&1 != 0 {
				n = -(n >> 1)
			} else {
				n >>= 1
			}
			line += n
			if kind == 14 {
				number()
				number()
				number()
			}
		case kind >= 10:
			line += int(kind) - 10
			skip = 2
		default:
			skip = 1
		}
		b = b[min(skip, len(b)):]
		switch {
		case at <= offset:
		case kind == 15:
			return 0
		default:
			return line
		}
	}
	return 0
}
