package pyimport

func init() {
	functions("inspect", map[string]func(*Run, *args) value{
		"currentframe":  func(r *Run, _ *args) value { return &frameObject{r.frame} },
		"getfile":       fileOf,
		"getsourcefile": fileOf,
		"getabsfile":    fileOf,
	})
}

// fileOf is inspect.getfile of a frame, a function or a module: the file of its source.
func fileOf(_ *Run, a *args) value {
	v, _ := a.get(0, "object")
	if m, ok := v.(*method); ok {
		v = m.fn
	}
	switch o := v.(type) {
	case *frameObject:
		return o.f.file
	case *codeObject:
		return o.file
	case *function:
		return o.file
	case *module:
		if file, ok := o.names.get("__file__"); ok {
			return file
		}
	}
	return unknownf("the file of an object")
}

// codeObject is the code of a frame, of which only the file is known.
type codeObject struct{ file string }

func (*codeObject) typeName() string { return "code" }

func (o *codeObject) attr(_ *Run, name string) (value, bool) {
	if name == "co_filename" {
		return o.file, true
	}
	return unknownf("%s of a code object", name), true
}
