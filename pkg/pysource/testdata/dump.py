"""Prints CPython's own parse of the files on standard input, as dump_test.go prints its own.

For each file: its name, the number of lines of its dump, or -1 if CPython does not parse
it, and the dump.
"""

import ast
import re
import struct
import sys
import warnings

OPS = {
    "Add": "+", "Sub": "-", "Mult": "*", "MatMult": "@", "Div": "/", "Mod": "%", "Pow": "**",
    "LShift": "<<", "RShift": ">>", "BitOr": "|", "BitXor": "^", "BitAnd": "&", "FloorDiv": "//",
    "Invert": "~", "Not": "not", "UAdd": "+", "USub": "-", "And": "and", "Or": "or",
    "Eq": "==", "NotEq": "!=", "Lt": "<", "LtE": "<=", "Gt": ">", "GtE": ">=",
    "Is": "is", "IsNot": "is not", "In": "in", "NotIn": "not in",
}


def text(s):
    return "s" + re.sub("[\ud800-\udfff]", "\ufffd", s).encode().hex()


def op(node):
    return OPS[type(node).__name__]


def exprs(nodes):
    return "[" + " ".join(expr(n) for n in nodes) + "]"


def const(v):
    if v is None or v is True or v is False:
        return str(v)
    if v is ...:
        return "..."
    if isinstance(v, str):
        return text(v)
    if isinstance(v, bytes):
        return "b" + v.hex()
    if isinstance(v, int):
        return "i%d" % v if v < 1 << 63 else "bad"
    if isinstance(v, float):
        return "bad" if v == float("inf") else "n" + struct.pack(">d", v).hex()
    return "bad"


def part(n):
    if isinstance(n, ast.Constant):
        return text(n.value)
    if n.conversion not in (-1, ord("s")) or n.format_spec is not None:
        return "bad"
    return expr(n.value)


def fstring(n):
    parts, last = [], False
    for v in n.values:
        literal = isinstance(getattr(v, "value", None), str) or part(v)[:1] == "s" and isinstance(v.value, ast.Constant)
        if literal and last:
            parts[-1] += part(v)[1:]
        elif not literal or v.value:
            parts.append(part(v))
        last = literal
    return "f[" + " ".join(parts) + "]"


def fors(n):
    return "".join(" for %s in %s%s" % (expr(g.target), expr(g.iter), exprs(g.ifs)) for g in n.generators)


def params(a):
    out = []
    plain = a.posonlyargs + a.args
    defaults = [None] * (len(plain) - len(a.defaults)) + a.defaults
    for p, d in zip(plain, defaults):
        out.append(p.arg + "=" + expr(d))
    if a.vararg:
        out.append("*" + a.vararg.arg)
    for p, d in zip(a.kwonlyargs, a.kw_defaults):
        out.append("!" + p.arg + "=" + expr(d))
    if a.kwarg:
        out.append("**" + a.kwarg.arg)
    return "(" + " ".join(out) + ")"


def args(positional, keywords):
    list = [(a.lineno, a.col_offset, "*" + expr(a.value) if isinstance(a, ast.Starred) else expr(a)) for a in positional]
    list += [(k.value.lineno, k.value.col_offset, (k.arg + "=" if k.arg else "**") + expr(k.value)) for k in keywords]
    return "(" + ", ".join(a[2] for a in sorted(list, key=lambda a: a[:2])) + ")"


def expr(n):
    if n is None:
        return "-"
    if isinstance(n, ast.Name):
        return n.id
    if isinstance(n, ast.Constant):
        return const(n.value)
    if isinstance(n, ast.JoinedStr):
        return fstring(n)
    if isinstance(n, ast.Attribute):
        return expr(n.value) + "." + n.attr
    if isinstance(n, ast.Subscript):
        return "%s[%s]" % (expr(n.value), expr(n.slice))
    if isinstance(n, ast.Slice):
        return "%s:%s:%s" % (expr(n.lower), expr(n.upper), expr(n.step))
    if isinstance(n, ast.Call):
        return expr(n.func) + args(n.args, n.keywords)
    if isinstance(n, ast.BinOp):
        return "(%s %s %s)" % (expr(n.left), op(n.op), expr(n.right))
    if isinstance(n, ast.BoolOp):
        return "(%s %s)" % (op(n.op), exprs(n.values))
    if isinstance(n, ast.UnaryOp):
        return "(%s %s)" % (op(n.op), expr(n.operand))
    if isinstance(n, ast.Compare):
        return "(%s%s)" % (expr(n.left), "".join(" %s %s" % (op(o), expr(v)) for o, v in zip(n.ops, n.comparators)))
    if isinstance(n, ast.IfExp):
        return "(%s if %s else %s)" % (expr(n.body), expr(n.test), expr(n.orelse))
    if isinstance(n, (ast.Tuple, ast.List, ast.Set)):
        return {"Tuple": "(", "List": "[", "Set": "{"}[type(n).__name__] + exprs(n.elts)
    if isinstance(n, ast.Dict):
        return "{" + " ".join(expr(k) + ":" + expr(v) for k, v in zip(n.keys, n.values)) + "}"
    if isinstance(n, ast.Lambda):
        return "lambda%s %s" % (params(n.args), expr(n.body))
    if isinstance(n, (ast.ListComp, ast.SetComp, ast.GeneratorExp)):
        return {"ListComp": "[", "SetComp": "{", "GeneratorExp": "("}[type(n).__name__] + expr(n.elt) + fors(n)
    if isinstance(n, ast.DictComp):
        return ":" + expr(n.key) + ":" + expr(n.value) + fors(n)
    if isinstance(n, ast.Starred):
        return "*" + expr(n.value)
    if isinstance(n, ast.Await):
        return "await " + expr(n.value)
    if isinstance(n, (ast.Yield, ast.YieldFrom)):
        return "yield " + expr(n.value)
    if isinstance(n, ast.NamedExpr):
        return "(%s := %s)" % (n.target.id, expr(n.value))
    return "bad"


def aliases(names):
    return ", ".join(a.name + (" as " + a.asname if a.asname else "") for a in names)


def block(out, word, body, depth):
    if body:
        out.append("%s%s:" % (" " * depth, word))
        stmts(out, body, depth + 1)


def stmts(out, body, depth):
    for n in body:
        stmt(out, n, depth)


def loop(out, n, depth, line, head):
    out.append(line + head)
    stmts(out, n.body, depth + 1)
    block(out, "else", n.orelse, depth)


def stmt(out, n, depth):
    line = " " * depth + str(n.lineno) + " "
    kind = type(n).__name__
    if kind == "Import":
        out.append(line + "import " + aliases(n.names))
    elif kind == "ImportFrom":
        out.append(line + "from %d %s import %s" % (n.level, n.module or "", aliases(n.names)))
    elif kind == "Assign":
        out.append(line + "%s = %s" % (exprs(n.targets), expr(n.value)))
    elif kind == "AnnAssign":
        out.append(line + "%s = %s" % (exprs([n.target]), expr(n.value)))
    elif kind == "AugAssign":
        out.append(line + "%s %s= %s" % (exprs([n.target]), op(n.op), expr(n.value)))
    elif kind == "TypeAlias":
        out.append(line + "%s = bad" % exprs([n.name]))
    elif kind == "Expr":
        out.append(line + expr(n.value))
    elif kind == "If":
        loop(out, n, depth, line, "if " + expr(n.test))
    elif kind == "While":
        loop(out, n, depth, line, "while " + expr(n.test))
    elif kind in ("For", "AsyncFor"):
        loop(out, n, depth, line, "for %s in %s" % (expr(n.target), expr(n.iter)))
    elif kind in ("Try", "TryStar"):
        out.append(line + "try")
        stmts(out, n.body, depth + 1)
        for h in n.handlers:
            out.append("%s%d except %s %s" % (" " * depth, h.lineno, expr(h.type), h.name or ""))
            stmts(out, h.body, depth + 1)
        block(out, "else", n.orelse, depth)
        block(out, "finally", n.finalbody, depth)
    elif kind in ("With", "AsyncWith"):
        out.append(line + "with " + ", ".join(expr(i.context_expr) + " as " + expr(i.optional_vars) for i in n.items))
        stmts(out, n.body, depth + 1)
    elif kind in ("FunctionDef", "AsyncFunctionDef"):
        out.append(line + "def %s%s %s" % (n.name, params(n.args), exprs(n.decorator_list)) + (" async" if kind[0] == "A" else ""))
        stmts(out, n.body, depth + 1)
    elif kind == "ClassDef":
        out.append(line + "class %s%s %s" % (n.name, args(n.bases, n.keywords), exprs(n.decorator_list)))
        stmts(out, n.body, depth + 1)
    elif kind == "Return":
        out.append(line + "return " + expr(n.value))
    elif kind == "Raise":
        out.append(line + "raise %s from %s" % (expr(n.exc), expr(n.cause)))
    elif kind == "Assert":
        out.append(line + "assert %s, %s" % (expr(n.test), expr(n.msg)))
    elif kind == "Delete":
        tuple = len(n.targets) == 1 and isinstance(n.targets[0], ast.Tuple)
        out.append(line + "del " + exprs(n.targets[0].elts if tuple else n.targets))
    elif kind in ("Global", "Nonlocal"):
        out.append(line + kind.lower() + " " + " ".join(n.names))
    elif kind == "Match":
        out.append(line + "match " + expr(n.subject))
        for c in n.cases:
            out.append("%scase if %s" % (" " * depth, expr(c.guard)))
            stmts(out, c.body, depth + 1)
    else:
        out.append(line + kind.lower())


def dump(source):
    out = []
    stmts(out, ast.parse(source).body, 0)
    return out


def main():
    warnings.simplefilter("ignore")
    sys.setrecursionlimit(20000)
    sys.stdout.reconfigure(encoding="utf-8", errors="replace")
    for name in sys.stdin.read().splitlines():
        with open(name, "rb") as f:
            source = f.read()
        try:
            lines = dump(source)
        except (SyntaxError, ValueError, RecursionError, MemoryError, LookupError):
            lines = None
        print(name, -1 if lines is None else len(lines))
        for line in lines or []:
            print(line)


main()
