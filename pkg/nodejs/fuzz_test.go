package nodejs

import (
	"bytes"
	"testing"
)

// FuzzReduce holds Reduce to its law: the result is within its bound, parses, and stays as it
// is if it is reduced again; and a program is followed to its end.
func FuzzReduce(f *testing.F) {
	for _, s := range []string{
		"const a = require('./a.node');\nif (process.platform === 'win32') { require('b') } else { require(`./${process.arch}.node`) }",
		"import a, { b as c } from 'x' with { type: 'json' };\nexport * from './y';\nexport default class A extends B { static #x = 1; get y() { return import('z') } }",
		"var __importDefault = (this && this.__importDefault) || function (m) { return m };\n(0, x.y)(...z);\nlabel: for (const [a, { b = 1 }] of c) { if (a) continue label; break }",
		"try { throw new Error(`a${1}b`) } catch { process.exit() } finally { require(a ?? b?.c) }\nswitch (a) { case 1: default: require('x') }",
		"#!/usr/bin/env node\nreturn require('bindings')('x')", "\"@js1\";\"@3\";require('a')", "(async () => { for await (const a of b) { await import('c') } })()",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, src []byte) {
		got := Reduce(src)
		if string(got) == unread {
			return
		}
		if bytes.HasPrefix(src, []byte(magic)) {
			return // it says that it is a result
		}
		if len(got) > maxReduced {
			t.Errorf("%d bytes are left of %d", len(got), len(src))
		}
		if tree, _ := parseJS(got); tree == nil {
			t.Errorf("the result does not parse:\n%s", got)
		}
		if !bytes.Equal(Reduce(got), got) {
			t.Errorf("a second Reduce changes the result")
		}
		fsys := fileSystem("-- app/main.js --\n" + string(src) + "\n-- app/a.node --\n")
		Main(fsys, &testHost{}, "/app/main.js", Options{Arch: "x64"})
	})
}

// FuzzPackage states that the kept part of a package.json resolves a name to the same file as
// the whole package.json.
func FuzzPackage(f *testing.F) {
	f.Add([]byte(`{"main": "./lib", "exports": {"./*": {"import": "./a/*.js", "default": ["./b/*.js"]}, ".": "./index.js"}, "imports": {"#x": "./x.js"}}`), "./y")
	f.Add([]byte(`{"exports": {"node": {"require": "./a.js"}}, "type": "module"}`), "")
	f.Fuzz(func(t *testing.T, text []byte, sub string) {
		resolve := func(text []byte) [2]string {
			r := &run{fs: packageFiles(text), parsed: map[string]*pkgJSON{}, pnp: map[string]bool{}, dirs: map[string][]string{}}
			file, doubt := r.resolve("p"+sub, "/app", false)
			return [2]string{file, doubt}
		}
		if whole, part := resolve(text), resolve(ReducePackage(text)); whole != part {
			t.Errorf("the whole leads to %q, what is kept to %q", whole, part)
		}
	})
}
