package pycode

// version is a release of CPython's bytecode: the magic number of its final release
// (Lib/importlib/_bootstrap_external.py, Include/internal/pycore_magic_number.h), and its
// opcodes (Lib/opcode.py, Lib/_opcode_metadata.py).
type version struct {
	minor, magic int
	header       int // bytes before the code object
	ints         int // numbers before the code of a code object
	ops          map[byte]op
}

// op says what an instruction does, as far as imports need it.
type op int

const (
	other op = iota
	importName
	importFrom
	importStar
	intrinsic // CALL_INTRINSIC_1, 2 of which is import *
	loadConst
	loadSmall
	loadName
	loadAttr
	buildTuple
	extendedArg
	relative  // a jump forward, by an offset
	absolute  // a jump to an offset
	setupTry  // SETUP_EXCEPT; SETUP_FINALLY of 3.8 to 3.10
	setupWith // SETUP_WITH
	noJump    // SETUP_LOOP, and SETUP_FINALLY up to 3.7, whose blocks run in any case
	leave     // RETURN_VALUE, RETURN_CONST
	reraise   // RERAISE, END_FINALLY
	raise     // RAISE_VARARGS
	match     // CHECK_EXC_MATCH, JUMP_IF_NOT_EXC_MATCH
	compare   // COMPARE_OP, 10 of which matches an exception up to 3.8
	popTop
	dupTop
	pushInfo  // PUSH_EXC_INFO
	withStart // WITH_EXCEPT_START
)

// versions are the releases that are read.
var versions = []version{
	{6, 3379, 12, 5, old(map[byte]op{121: setupTry, 122: noJump, 120: noJump, 88: reraise, 81: withStart})},
	{7, 3394, 16, 5, old(map[byte]op{121: setupTry, 122: noJump, 120: noJump, 88: reraise, 81: withStart})},
	{8, 3413, 16, 6, old(map[byte]op{122: setupTry, 88: reraise, 81: withStart})},
	{9, 3425, 16, 6, old(map[byte]op{122: setupTry, 121: match, 48: reraise, 49: withStart})},
	{10, 3439, 16, 6, old(map[byte]op{122: setupTry, 121: match, 119: reraise, 49: withStart})},
	{11, 3495, 16, 5, map[byte]op{
		108: importName, 109: importFrom, 84: importStar, 100: loadConst, 101: loadName, 116: loadName, 106: loadAttr, 102: buildTuple, 144: extendedArg,
		93: relative, 110: relative, 111: relative, 112: relative, 114: relative, 115: relative, 128: relative, 129: relative, 123: relative,
		83: leave, 119: reraise, 130: raise, 36: match, 1: popTop, 35: pushInfo, 49: withStart,
	}},
	{12, 3531, 16, 5, map[byte]op{
		108: importName, 109: importFrom, 173: intrinsic, 100: loadConst, 101: loadName, 116: loadName, 106: loadAttr, 102: buildTuple, 144: extendedArg,
		93: relative, 110: relative, 114: relative, 115: relative, 128: relative, 129: relative, 123: relative,
		83: leave, 121: leave, 119: reraise, 130: raise, 36: match, 1: popTop, 35: pushInfo, 49: withStart,
	}},
	{13, 3571, 16, 5, map[byte]op{
		75: importName, 74: importFrom, 55: intrinsic, 83: loadConst, 92: loadName, 91: loadName, 82: loadAttr, 52: buildTuple, 71: extendedArg,
		72: relative, 79: relative, 97: relative, 98: relative, 99: relative, 100: relative, 104: relative,
		36: leave, 103: leave, 102: reraise, 101: raise, 7: match, 32: popTop, 33: pushInfo, 44: withStart,
	}},
	{14, 3627, 16, 5, map[byte]op{
		73: importName, 72: importFrom, 53: intrinsic, 82: loadConst, 94: loadSmall, 93: loadName, 92: loadName, 80: loadAttr, 51: buildTuple, 69: extendedArg,
		70: relative, 77: relative, 100: relative, 101: relative, 102: relative, 103: relative, 106: relative,
		35: leave, 105: reraise, 104: raise, 6: match, 31: popTop, 32: pushInfo, 43: withStart,
	}},
}

// old returns the opcodes of 3.6 to 3.10, with those of one release.
func old(more map[byte]op) map[byte]op {
	ops := map[byte]op{
		108: importName, 109: importFrom, 84: importStar, 100: loadConst, 101: loadName, 116: loadName, 106: loadAttr, 102: buildTuple, 144: extendedArg,
		93: relative, 110: relative, 111: absolute, 112: absolute, 114: absolute, 115: absolute,
		143: setupWith, 154: setupWith, 83: leave, 130: raise, 107: compare, 1: popTop, 4: dupTop,
	}
	for code, o := range more {
		ops[code] = o
	}
	return ops
}
