// Package pysource reads Python source without running it: it reduces a file to the
// statements that decide which modules and libraries an import of the file loads
// ([Reduce]), and parses such a text into statements and expressions ([Parse]).
//
// It reads Python 2.7 and 3.6 to 3.14, and is tolerant: text that it cannot read becomes a
// [Bad] statement or a [BadExpr], never an error, and a file that was cut short says so.
//
// Its parser is its own. Of those in Go without cgo, go-python/gpython stopped at Python
// 3.4, tamnd/gopy ports the strict grammar of 3.14 alone, and odvcencio/gotreesitter takes
// every version and runs at a tenth of the speed that a reduction of whole images needs.
//
// It knows the language only: no images, no modules and no search paths. pkg/pyimport
// evaluates the statements.
package pysource

// File is a parsed file.
type File struct {
	Body []Stmt
	// Partial is the reason why statements at the end are missing, or "" if the file is
	// complete: it was cut short, or is larger than this package reads.
	Partial string
	// Syntax is what not every release of CPython reads or knows, for a reduced text: the first of each in
	// the file that others do not precede.
	Syntax []Syntax
	// Changed are the variables of the module that functions may bind, or whose value they may change, in lines
	// that Reduce has left out.
	Changed []string
}

// Pos is the position of a statement: the line in the original file, from 1; 0 if it is
// not known.
type Pos int

// Line returns the line of the statement.
func (p Pos) Line() int { return int(p) }

// Stmt is a statement: a pointer to one of the types below.
type Stmt interface{ Line() int }

// Expr is an expression: a pointer to one of the types below, or nil where one is left
// out.
type Expr any

// Alias is one name of an import statement: `name as as`. As is "" without `as`.
type Alias struct{ Name, As string }

type (
	// Import is `import a.b as c, d`.
	Import struct {
		Pos
		Names []Alias
	}
	// ImportFrom is `from ..module import a as b, c`; Names has the single name "*" for a
	// star. Level counts the leading dots.
	ImportFrom struct {
		Pos
		Level  int
		Module string
		Names  []Alias
	}
	// Assign is `a = b = value`, `a: int = value`, or `a += value` with Op "+". A bare
	// annotation has no Value. Annotation is nil if there is none; a reduced text has `?` for one in a class that
	// uses no part of a module, and `_` as the target of one that is evaluated.
	Assign struct {
		Pos
		Targets    []Expr
		Op         string
		Value      Expr
		Annotation Expr
	}
	// ExprStmt is an expression as a statement.
	ExprStmt struct {
		Pos
		Value Expr
	}
	// If is `if`, with `elif` as an If alone in Else. The header of a block that could not
	// be read is an If whose Cond is a [BadExpr].
	If struct {
		Pos
		Cond       Expr
		Body, Else []Stmt
	}
	// While is `while`.
	While struct {
		Pos
		Cond       Expr
		Body, Else []Stmt
	}
	// For is `for target in iter`, also `async for`.
	For struct {
		Pos
		Target, Iter Expr
		Body, Else   []Stmt
	}
	// Try is `try`, also with `except*`.
	Try struct {
		Pos
		Body          []Stmt
		Handlers      []Handler
		Else, Finally []Stmt
	}
	// With is `with a as b, c`, also `async with`.
	With struct {
		Pos
		Items []WithItem
		Body  []Stmt
	}
	// Def is a function, also `async def`.
	Def struct {
		Pos
		Name       string
		Params     []Param
		Decorators []Expr
		Body       []Stmt
		Async      bool
		// Annotation is that of the result. In a reduced text it has the parts of modules that all annotations
		// of the head use.
		Annotation Expr
		// Generator reports that the body has a yield of its own.
		Generator bool
	}
	// Class is a class.
	Class struct {
		Pos
		Name       string
		Bases      []Arg
		Decorators []Expr
		Body       []Stmt
	}
	// Return is `return value`; Value may be nil.
	Return struct {
		Pos
		Value Expr
	}
	// Raise is `raise value from cause`; Value is nil for a bare raise.
	Raise struct {
		Pos
		Value, Cause Expr
	}
	// Assert is `assert cond, message`.
	Assert struct {
		Pos
		Cond, Message Expr
	}
	// Del is `del a, b`.
	Del struct {
		Pos
		Targets []Expr
	}
	// Scope is `global a, b` or `nonlocal a, b`.
	Scope struct {
		Pos
		Global bool
		Names  []string
	}
	// Match is `match subject`.
	Match struct {
		Pos
		Subject Expr
		Cases   []Case
	}
	// Simple is `pass`, `break` or `continue`: Word.
	Simple struct {
		Pos
		Word string
	}
	// Bad is a statement that could not be read, or that Reduce has left out because it is
	// too long. It may do anything but import.
	Bad struct {
		Pos
		Text string
	}
)

// Handler is an except clause. Type is nil for a bare `except:`, and a [BadExpr] if it
// could not be read.
type Handler struct {
	Pos
	Type Expr
	Name string
	Body []Stmt
}

// WithItem is one context of a with statement. Target may be nil.
type WithItem struct{ Context, Target Expr }

// Case is one case of a match statement. Values are those that a pattern compares with, as in
// `case "a" | ssl.CERT_NONE:`; of other patterns, only the text is known.
type Case struct {
	Pattern string
	Values  []Expr
	Guard   Expr
	Body    []Stmt
}

// Param is a parameter. Star is "", "*" or "**"; Default may be nil. Parameters that Reduce
// has left out are *args and **kwargs.
type Param struct {
	Name, Star                  string
	Default                     Expr
	KeywordOnly, PositionalOnly bool
}

// Arg is an argument of a call: positional, `name=value`, or with Star "*" or "**".
// Arguments that Reduce has left out are a "*" and a "**" of a [BadExpr].
type Arg struct {
	Name, Star string
	Value      Expr
}

type (
	// Name is an identifier, also True, False and None only as [Const].
	Name struct{ ID string }
	// Const is a literal: string, []byte, bool, int64, float64, nil for None, or
	// [Ellipsis]. Adjacent strings are one. A number that does not fit, or a complex one, is
	// a BadExpr.
	Const struct{ Value any }
	// FString is an f-string: its parts in order, strings as Const. A part with a format, or
	// a conversion other than !s, is a BadExpr. A t-string is a BadExpr as a whole.
	FString struct{ Parts []Expr }
	// Attr is `value.name`.
	Attr struct {
		Value Expr
		Name  string
	}
	// Index is `value[index]`; a slice is a [Slice].
	Index struct{ Value, Index Expr }
	// Slice is `lower:upper:step`; parts may be nil.
	Slice struct{ Lower, Upper, Step Expr }
	// Call is `func(args)`.
	Call struct {
		Func Expr
		Args []Arg
	}
	// BinOp is `left op right` with an arithmetic operator.
	BinOp struct {
		Op          string
		Left, Right Expr
	}
	// BoolOp is `a and b and c` or with `or`.
	BoolOp struct {
		Op     string
		Values []Expr
	}
	// Unary is `not x`, `-x`, `+x` or `~x`.
	Unary struct {
		Op    string
		Value Expr
	}
	// Compare is `first op0 rest0 op1 rest1`; an operator is one of < > == >= <= != in,
	// "not in", is, "is not".
	Compare struct {
		First Expr
		Ops   []string
		Rest  []Expr
	}
	// IfExp is `then if cond else other`.
	IfExp struct{ Cond, Then, Other Expr }
	// Sequence is a tuple, list or set display: Kind "(", "[" or "{".
	Sequence struct {
		Kind  string
		Items []Expr
	}
	// Dict is a dict display; a key is nil for `**value`.
	Dict struct{ Keys, Values []Expr }
	// Lambda is a lambda.
	Lambda struct {
		Params []Param
		Body   Expr
	}
	// Comprehension is a list, set, dict or generator comprehension: Kind "[", "{", ":" or
	// "(". A dict's key is Key.
	Comprehension struct {
		Kind     string
		Key, Elt Expr
		Fors     []CompFor
	}
	// Starred is `*value`.
	Starred struct{ Value Expr }
	// Await is `await value`, or `yield value` with Yield set, or `yield from value` with From set as well.
	Await struct {
		Value Expr
		Yield bool
		From  bool
	}
	// Walrus is `name := value`.
	Walrus struct {
		Name  string
		Value Expr
	}
	// BadExpr is an expression that could not be read or was left out because it is long.
	BadExpr struct{ Text string }
)

// LeftOutClass is the text of the BadExpr that stands for a class that Reduce has left out.
const LeftOutClass = "class"

// CompFor is `for target in iter if a if b` of a comprehension.
type CompFor struct {
	Target, Iter Expr
	Ifs          []Expr
}

// Ellipsis is the value of `...`.
type Ellipsis struct{}
