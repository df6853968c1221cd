package pyimport

import (
	"slices"
	"strings"
)

// abstractOf are the abstract base classes of collections.abc and numbers that the builtin types are registered with, or
// that ask for their methods (Lib/_collections_abc.py, Lib/numbers.py).
var abstractOf = map[string][]string{
	"dict":     strings.Fields("Mapping MutableMapping Collection Sized Iterable Container Reversible"),
	"list":     strings.Fields("Sequence MutableSequence Collection Sized Iterable Container Reversible"),
	"tuple":    strings.Fields("Sequence Collection Sized Iterable Container Reversible Hashable"),
	"str":      strings.Fields("Sequence Collection Sized Iterable Container Reversible Hashable"),
	"bytes":    strings.Fields("Sequence Collection Sized Iterable Container Reversible Hashable"),
	"set":      strings.Fields("Set Collection Sized Iterable Container"),
	"int":      strings.Fields("Number Complex Real Rational Integral Hashable"),
	"bool":     strings.Fields("Number Complex Real Rational Integral Hashable"),
	"float":    strings.Fields("Number Complex Real Hashable"),
	"NoneType": {"Hashable"},
	"iterator": strings.Fields("Iterator Iterable"),
	"function": strings.Fields("Callable Hashable"),
	"method":   strings.Fields("Callable Hashable"),
	"type":     strings.Fields("Callable Hashable"),

	"range":       strings.Fields("Sequence Collection Sized Iterable Container Reversible Hashable"),
	"dict_keys":   strings.Fields("KeysView Set MappingView Collection Sized Iterable Container Reversible"),
	"dict_items":  strings.Fields("ItemsView Set MappingView Collection Sized Iterable Container Reversible"),
	"dict_values": strings.Fields("ValuesView MappingView Collection Sized Iterable Container Reversible Hashable"),

	"builtin_function_or_method": strings.Fields("Callable Hashable"),
}

// abstractMethods are the methods by which an abstract base class knows its subclasses.
var abstractMethods = map[string][]string{
	"Iterable": {"__iter__"}, "Iterator": {"__iter__", "__next__"}, "Sized": {"__len__"}, "Container": {"__contains__"},
	"Callable": {"__call__"}, "Collection": {"__len__", "__iter__", "__contains__"}, "Reversible": {"__reversed__", "__iter__"},
}

// isAbstract reports whether a class is one of those in [abstractOf], or another whose subclasses need not derive from it.
func (c *class) isAbstract() bool {
	switch c.module {
	case "collections.abc", "_collections_abc", "numbers", "typing", "importlib.abc", "importlib.resources.abc", "io", "_io":
		return true
	}
	return c.virtual
}

// abstractIs reports whether objects of a class that does not derive from an abstract base class count as its objects. c is nil for a
// builtin type that is no class here, and name is the name of the type.
func (c *class) abstractIs(name string, of *class) (is, known bool) {
	decided := of.module == "collections.abc" || of.module == "_collections_abc" || of.module == "numbers"
	if !decided {
		return false, false
	}
	if list, ok := abstractOf[name]; ok && (c == nil || c.module == "builtins") {
		if slices.Contains(list, of.name) {
			return true, true
		}
		switch name {
		case "set": // frozenset is a set here, which is hashable and not mutable
			return false, of.name != "Hashable" && of.name != "MutableSet"
		case "iterator":
			return false, false
		}
		return false, of.name != "Buffer" && of.name != "ByteString"
	}
	if c == nil {
		return false, false
	}
	for _, k := range c.mro {
		if k.module == "builtins" && slices.Contains(abstractOf[k.name], of.name) {
			return true, true
		}
	}
	methods := abstractMethods[of.name]
	if len(methods) > 0 && !slices.ContainsFunc(methods, func(m string) bool { return !c.has(m) }) {
		return true, true
	}
	return false, c.known() && (len(methods) > 0 || slices.Contains([]string{"Mapping", "Sequence", "MutableMapping", "MutableSequence", "Set"}, of.name))
}
