package packs

// Kind sorts findings by their cause, in one word.
type Kind string

// Kinds of findings.
const (
	Missing    Kind = "missing"    // a file that something asks for is not found
	Unusable   Kind = "unusable"   // a file is found and cannot be used
	Version    Kind = "version"    // a library lacks a version that something asks for
	Symbol     Kind = "symbol"     // a library lacks a symbol that something asks for
	Mixture    Kind = "mixture"    // a process gets libraries that do not go together
	Setting    Kind = "setting"    // a variable, a search path or the config is wrong
	Package    Kind = "package"    // an installed package does not fit others or the image
	Program    Kind = "program"    // a program cannot start
	Unexamined Kind = "unexamined" // something could not be examined
)

// Kinds are all kinds of findings.
var Kinds = []Kind{Missing, Unusable, Version, Symbol, Mixture, Setting, Package, Program, Unexamined}
