package nodejs

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"

	"github.com/imgcheck/imgcheck/pkg/layers"
	"github.com/imgcheck/imgcheck/pkg/pyimport"
)

// testHost opens every addon but those with "broken" in their path.
type testHost struct{ opened []string }

type brokenError struct{}

func (brokenError) Error() string { return "libx.so.1: cannot open shared object file" }

func (h *testHost) Open(file string) *pyimport.Failure {
	if strings.Contains(file, "broken") {
		return &pyimport.Failure{Type: "Error", Text: brokenError{}.Error(), Cause: brokenError{}}
	}
	h.opened = append(h.opened, file)
	return nil
}

// fileSystem returns the files of a text, reduced as a layer's are.
func fileSystem(text string) *layers.FS {
	var list []layers.Entry
	dirs := map[string]bool{}
	for _, f := range txtar.Parse([]byte(text)).Files {
		for dir := path.Dir(f.Name); dir != "." && !dirs[dir]; dir = path.Dir(dir) {
			dirs[dir] = true
			list = append(list, layers.Entry{Path: dir, Type: layers.Dir})
		}
		content := f.Data
		switch {
		case strings.HasSuffix(f.Name, "package.json"):
			content = ReducePackage(content)
		case strings.HasSuffix(f.Name, "js"):
			content = Reduce(content)
		}
		list = append(list, layers.Entry{Path: f.Name, Type: layers.Regular, Mode: 0o644, Size: int64(len(f.Data)), Content: content})
	}
	slices.SortFunc(list, func(a, b layers.Entry) int { return strings.Compare(a.Path, b.Path) })
	return layers.Merge(layers.NewLayer(list))
}

// draw writes a tree as lines. A line has the name of a node, the line that loads it, and its
// failure.
func draw(n *pyimport.Node, indent string, b *strings.Builder) {
	for _, u := range n.Unknown {
		fmt.Fprintf(b, "%s? %s\n", indent, u)
	}
	for _, c := range n.Nodes {
		fmt.Fprintf(b, "%s%s", indent, c.Name)
		if c.Kind == pyimport.Extension {
			b.WriteString(" addon")
		}
		if _, line, ok := strings.Cut(c.At, ":"); ok {
			b.WriteString(" :" + line)
		}
		for _, p := range []struct{ word, value string }{{"caught", c.Caught}, {"maybe", c.Maybe}} {
			if p.value != "" {
				fmt.Fprintf(b, " %s %s", p.word, p.value)
			}
		}
		if c.Failed != nil {
			fmt.Fprintf(b, " ! %s", c.Failed.Text)
			if c.Failed.Doubt != "" {
				fmt.Fprintf(b, " (%s)", c.Failed.Doubt)
			}
		}
		b.WriteString("\n")
		draw(c, indent+"  ", b)
	}
}

// follow returns the tree of /app/main.js, or main.mjs.
func follow(t *testing.T, text string, env ...string) string {
	t.Helper()
	fsys := fileSystem(text)
	o := Options{Env: map[string]string{}, Cwd: "/app", Exec: "/usr/bin/node", Arch: "x64"}
	for _, v := range env {
		name, value, _ := strings.Cut(v, "=")
		o.Env[name] = value
	}
	n := Main(fsys, &testHost{}, "/app/main", o)
	if n == nil {
		n = Main(fsys, &testHost{}, "/app/main.mjs", o)
	}
	if n == nil {
		t.Fatal("the program has no source")
	}
	var b strings.Builder
	draw(n, "", &b)
	if n.Failed != nil {
		fmt.Fprintf(&b, "! %s", n.Failed.Text)
		if n.Failed.Doubt != "" {
			fmt.Fprintf(&b, " (%s)", n.Failed.Doubt)
		}
		b.WriteString("\n")
	}
	return b.String()
}

func TestMain(t *testing.T) {
	for name, test := range map[string]struct{ text, want string }{
		"literal": {`
-- app/main.js --
#!/usr/bin/env node
const a = require('./lib');

const addon = require("addon/build/addon.node");
-- app/lib/index.js --
exports.x = 1;
-- app/node_modules/addon/build/addon.node --
`, "./lib :2\naddon/build/addon.node addon :4\n"},
		"files that are there": {`
-- app/main.js --
const { existsSync } = require('fs');
const { join } = require('path');
if (existsSync(join(__dirname, 'addon.node'))) require('./one');
if (existsSync('addon.node')) require('./two');
if (existsSync('/app/other.node') || existsSync('other.node')) require('./three');
-- app/addon.node --
-- app/one.js --
-- app/two.js --
-- app/three.js --
`, "./one :3\n./two :4\n"},
		"broken": {`
-- app/main.js --
const d = require('dep');
require('./never');
-- app/node_modules/dep/package.json --
{"main": "lib/dep"}
-- app/node_modules/dep/lib/dep.js --
module.exports = require(` + "`../build/${process.platform}-${process.arch}/broken.node`" + `);
-- app/node_modules/dep/build/linux-x64/broken.node --
`, "dep :1 ! libx.so.1: cannot open shared object file\n  ../build/linux-x64/broken.node addon :1 ! libx.so.1: cannot open shared object file\n! libx.so.1: cannot open shared object file\n"},
		"caught": {`
-- app/main.js --
let fast;
try { fast = require('./broken.node'); } catch (e) { fast = require('./slow'); }
require('./later.node');
-- app/broken.node --
-- app/slow.js --
module.exports = {}
-- app/later.node --
`, "./broken.node addon :2 caught catch ! libx.so.1: cannot open shared object file\n./slow :2\n./later.node addon :3\n"},
		"imports in a circle": {`
-- app/main.js --
require('#a');
-- app/package.json --
{"imports": {"#a": "#b", "#b": "#a"}}
`, "#a :1 ! Cannot find module '#a' (conditions in /app/package.json may lead to it)\n"},
		"exports of another package": {`
-- app/node_modules/lib/package.json --
{"name": "lib", "exports": {"./a": "lib/a"}}
-- app/main.js --
try { require('lib/a'); } catch {}
`, "lib/a :1 caught catch ! Cannot find module 'lib/a' (conditions in /app/node_modules/lib/package.json may lead to it)\n"},
		"conditions in one another": {`
-- app/main.js --
require('deep');
require('outside');
require('./last.node');
-- app/node_modules/deep/package.json --
{"exports": ` + strings.Repeat(`{"node": `, 100) + `"./x.js"` + strings.Repeat("}", 100) + `}
-- app/node_modules/deep/x.js --
require('./never.node')
-- app/node_modules/outside/package.json --
{"exports": "deep"}
-- app/last.node --
`, "deep :1 ! Cannot find module 'deep' (/app/node_modules/deep/package.json could not be read)\noutside :2 ! Cannot find module 'outside' (conditions in /app/node_modules/outside/package.json may lead to it)\n./last.node addon :3\n"},
		"its own error": {`
-- app/main.js --
require('napi');
-- app/node_modules/napi/index.js --
let binding = null, errors = [];
for (const p of ['./broken.node', 'napi-linux-x64']) {
  try { binding = require(p); break } catch (e) { errors.push(e) }
}
if (!binding) { throw new Error('Failed to load native binding', { cause: errors }) }
-- app/node_modules/napi/broken.node --
`, "napi :1 ! libx.so.1: cannot open shared object file\n  ./broken.node addon :3 ! libx.so.1: cannot open shared object file\n  napi-linux-x64 :3 caught catch ! Cannot find module 'napi-linux-x64'\n! libx.so.1: cannot open shared object file\n"},
		"a program's own error": {`
-- app/main.js --
if (!process.env.TOKEN) { throw new Error('TOKEN is not set') }
require('./a.node');
-- app/a.node --
`, "! TOKEN is not set (the program throws it itself)\n"},
		"a package without its addon": {`
-- app/main.js --
require('napi');
-- app/node_modules/napi/index.js --
let binding;
try { binding = require('./napi.linux-x64-gnu.node') } catch {}
if (!binding) { throw new Error('Failed to load native binding') }
`, "napi :1 ! Failed to load native binding\n  ./napi.linux-x64-gnu.node :2 caught catch ! Cannot find module './napi.linux-x64-gnu.node'\n! Failed to load native binding\n"},
		"a package without its settings": {`
-- app/main.js --
require('settings');
require('./a.node');
-- app/a.node --
-- app/node_modules/settings/index.js --
let extra;
try { extra = require('settings-extra') } catch {}
const text = require('fs').readFileSync('/etc/settings.json');
`, "settings :1 ! ENOENT: no such file or directory, open '/etc/settings.json' (the program throws it itself)\n  settings-extra :2 caught catch ! Cannot find module 'settings-extra'\n./a.node addon :2\n"},
		"absent": {"\n-- app/main.js --\nrequire('express');\n", "express :1 ! Cannot find module 'express'\n! Cannot find module 'express'\n"},
		"hooks": {`
-- app/main.js --
const Module = require('module');
Module._resolveFilename = function () {};
require('@/models');
require('./a.node');
-- app/a.node --
`, "@/models :3 ! Cannot find module '@/models' (a module of the program changes how modules are found)\n./a.node addon :4\n"},
		"not known": {`
-- app/main.js --
const name = require('os').hostname();
require('./' + name + '.node');
if (Date.now() > 3) { require('./broken.node'); } else { require('./slow'); }
require('./last.node');
-- app/broken.node --
-- app/slow.js --
-- app/last.node --
`, "? line 2: require of a name that is not known\n./broken.node addon :3 maybe Date.now() > 3\n./slow :3 maybe Date.now() > 3\n./last.node addon :4\n"},
		"perhaps thrown": {`
-- app/main.js --
if (Math.random() > 0.5) { throw new Error('x'); }
require('./broken.node');
-- app/broken.node --
`, "./broken.node addon :2 maybe Math.random() > 0.5\n"},
		"later": {`
-- app/main.js --
const load = () => require('./broken.node');
function other() { return require('./broken.node'); }
module.exports = { load, other };
-- app/broken.node --
`, ""},
		"called": {`
-- app/main.js --
async function start() { require('./a.node'); }
start();
-- app/a.node --
`, "./a.node addon :1 caught a promise\n"},
		"esm": {`
-- app/main.mjs --
import fs, { readFileSync } from 'node:fs';
import { createRequire } from 'module';
import data from './data.json' with { type: 'json' };
import lib from 'lib';
const require = createRequire(import.meta.url);
const addon = require('./a.node');
-- app/data.json --
{}
-- app/a.node --
-- app/node_modules/lib/package.json --
{"exports": {".": {"require": "./no.cjs", "import": {"types": "./no.d.ts", "default": "./yes.js"}}}, "type": "module"}
-- app/node_modules/lib/yes.js --
export * from './deep.js';
export default 1;
-- app/node_modules/lib/deep.js --
export const deep = 2;
`, "./data.json :3\nlib :4\n  ./deep.js :1\n./a.node addon :6\n"},
		"bindings": {`
-- app/main.js --
require('sqlite');
-- app/node_modules/sqlite/package.json --
{"name": "sqlite"}
-- app/node_modules/sqlite/index.js --
module.exports = require('bindings')('sqlite3.node');
-- app/node_modules/sqlite/build/Release/sqlite3.node --
`, "sqlite :1\n  /app/node_modules/sqlite/build/Release/sqlite3.node addon :1\n"},
		"prebuilds": {`
-- app/main.js --
require('u');
-- app/node_modules/u/index.js --
const path = require('path');
module.exports = require('node-gyp-build')(path.join(__dirname, '.'));
-- app/node_modules/u/prebuilds/darwin-x64/u.node --
-- app/node_modules/u/prebuilds/linux-x64/u.glibc.node --
-- app/node_modules/u/prebuilds/linux-x64/u.musl.node --
`, "u :1\n  /app/node_modules/u/prebuilds/linux-x64/u.glibc.node addon :2\n"},
		"pre-gyp": {`
-- app/main.js --
require('b');
-- app/node_modules/b/package.json --
{"name": "b", "version": "1.0.0", "binary": {"module_name": "b", "module_path": "./lib/binding/napi-v{napi_build_version}"}}
-- app/node_modules/b/index.js --
var pre = require('@mapbox/node-pre-gyp');
var where = pre.find(require('path').resolve(__dirname, './package.json'));
var b = require(where);
-- app/node_modules/b/lib/binding/napi-v3/b.node --
`, "b :1\n  /app/node_modules/b/lib/binding/napi-v3/b.node addon :3\n"},
		"dlopen": {`
-- app/main.js --
const m = { exports: {} };
process.dlopen(m, require('path').join(__dirname, 'a.node'));
-- app/a.node --
`, "/app/a.node addon :2\n"},
		"transpiled": {`
-- app/main.js --
"use strict";
var __importDefault = (this && this.__importDefault) || function (mod) {
    return (mod && mod.__esModule) ? mod : { "default": mod };
};
Object.defineProperty(exports, "__esModule", { value: true });
const path_1 = __importDefault(require("path"));
const native_1 = __importDefault(require("./native"));
native_1.default(path_1.default.join(__dirname, "a.node"));
-- app/native.js --
module.exports = function (file) { return require(file); };
-- app/a.node --
`, "./native :7\n/app/a.node addon :8\n"},
		"switch": {`
-- app/main.js --
const { platform, arch } = process;
let b;
switch (platform) {
  case 'win32': b = require('./broken.node'); break
  case 'linux':
    switch (arch) {
      case 'x64': b = require('./a.node'); break
      default: throw new Error('Unsupported')
    }
    break
  default: throw new Error('Unsupported')
}
if (!b) throw new Error('none');
require('./c.node');
-- app/a.node --
-- app/c.node --
`, "./a.node addon :7\n./c.node addon :14\n"},
		"return": {`
-- app/main.js --
if (process.platform === 'linux') {
  require('./a.node');
  return;
}
require('./broken.node');
-- app/a.node --
-- app/broken.node --
`, "./a.node addon :2\n"},
		"exit":           {"\n-- app/main.js --\nprocess.exit(0);\nrequire('./broken.node');\n-- app/broken.node --\n", ""},
		"not JavaScript": {"\n-- app/main.js --\nimport type { X } from './x';\nrequire('./broken.node');\n", "? its source could not be read\n"},
	} {
		t.Run(name, func(t *testing.T) {
			if d := cmp.Diff(test.want, follow(t, test.text)); d != "" {
				t.Error(d)
			}
		})
	}
}

// TestEnvironment checks that variables decide conditions, and unknown ones do not.
func TestEnvironment(t *testing.T) {
	text := "\n-- app/main.js --\nif (process.env.A === '1') { require('./a.node'); }\nrequire('b');\n-- app/a.node --\n-- opt/b.js --\n"
	for env, want := range map[string]string{
		"A=1": "./a.node addon :1\nb :2\n", "A=2": "b :2\n", "A=\x00": "./a.node addon :1 maybe process.env.A === '1'\nb :2\n",
	} {
		if d := cmp.Diff(want, follow(t, text, env, "NODE_PATH=/opt")); d != "" {
			t.Errorf("%q: %s", env, d)
		}
	}
}

// TestEnds checks that programs that never end, or load themselves, are followed to a bound.
func TestEnds(t *testing.T) {
	for _, text := range []string{
		"\n-- app/main.js --\nwhile (true) { let a = 1; }\nrequire('./a.node');\n-- app/a.node --\n",
		"\n-- app/main.js --\nfunction f() { return f() + f(); }\nf();\nrequire('./b');\n-- app/b.js --\nrequire('./main');\n",
		"\n-- app/main.js --\nlet s = 'x';\nfor (let i = 0; i < 1000; i++) { s += s; }\nrequire(s);\n",
	} {
		follow(t, text)
	}
}

// packageFiles returns a package with a package.json and some files.
func packageFiles(text []byte) *layers.FS {
	list := []layers.Entry{{Path: "app", Type: layers.Dir}}
	for _, d := range []string{"app/node_modules", "app/node_modules/p", "app/node_modules/p/a", "app/node_modules/p/b"} {
		list = append(list, layers.Entry{Path: d, Type: layers.Dir})
	}
	for _, name := range []string{"a.js", "a/y.js", "b/y.js", "index.js", "lib.js", "x.js"} {
		list = append(list, layers.Entry{Path: "app/node_modules/p/" + name, Type: layers.Regular, Size: 1, Content: []byte(magic)})
	}
	list = append(list, layers.Entry{Path: "app/node_modules/p/package.json", Type: layers.Regular, Size: int64(len(text)), Content: text})
	slices.SortFunc(list, func(a, b layers.Entry) int { return strings.Compare(a.Path, b.Path) })
	return layers.Merge(layers.NewLayer(list))
}

// TestDeepDirectories has files in hundreds of directories in one another load others: a look-up
// counts as often as it has directories to pass.
func TestDeepDirectories(t *testing.T) {
	for depth, want := range map[int]string{20: "", 400: "more steps than are followed", 600: "its importer's path is too long"} {
		deep := strings.Repeat("d/", depth)
		text, files := "\n-- app/main.js --\nrequire('./"+deep+"m.js');\n-- app/"+deep+"m.js --\n", ""
		for i := range 500 {
			text += fmt.Sprintf("require('./%d/s.js');\n", i)
			files += fmt.Sprintf("-- app/%s%d/s.js --\ntry{require('none')}catch(e){}\n", deep, i)
		}
		text += files
		if got := follow(t, text); !strings.Contains(got, want) || want == "" && strings.Contains(got, "?") {
			t.Errorf("%d directories: %q", depth, strings.ReplaceAll(got, "d/", ""))
		}
	}
}

// TestDeepConditions checks that conditions in one another are followed to a bound.
func TestDeepConditions(t *testing.T) {
	for depth, want := range map[int]string{maxConditions - 2: "lib :1\n", maxConditions + 2: "lib :1"} {
		text := "\n-- app/main.js --\nrequire('lib');\n-- app/node_modules/lib/a.js --\n-- app/node_modules/lib/package.json --\n" +
			`{"exports": ` + strings.Repeat(`{"node": `, depth) + `"./a.js"` + strings.Repeat("}", depth+1) + "\n"
		if got := follow(t, text); !strings.HasPrefix(got, want) || strings.Contains(got, "could not be read") != (depth > maxConditions) {
			t.Errorf("%d conditions in one another: %q", depth, got)
		}
	}
}
