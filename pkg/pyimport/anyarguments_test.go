package pyimport

import (
	"fmt"
	"runtime/debug"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"
)

// TestAnyArguments calls each function and method that this package knows, and each class, with
// arguments of any number and kind: none, ones that are not known, texts, numbers, lists. None
// of the calls panics.
func TestAnyArguments(t *testing.T) {
	arguments := []string{"", "*nobody()", "None", "'x', None, None", "3, 3", "[], [], []", "'x', *nobody()", "{}, **nobody()", "nobody(), nobody(), nobody()", "lambda: 1, [1]"}
	var callables []string
	for _, name := range sortedKeys(builtinFunctions) {
		if name != "exit" && name != "quit" {
			callables = append(callables, name)
		}
	}
	methods := func(self string, table map[string]func(*Run, *args) value) {
		for _, name := range sortedKeys(table) {
			callables = append(callables, self+"."+name)
		}
	}
	methods("'text'", stringMethods)
	methods("[1, 'x']", listMethods)
	methods("{'a': 1}", dictMethods)
	methods("{1, 2}", setMethods)
	methods("os.environ", environMethods)
	methods("sys.modules", modulesMethods)
	methods("globals()", globalsMethods)
	methods("pathlib.Path('/')", pathMethods)
	for _, f := range callables {
		var source strings.Builder
		source.WriteString("import os, sys, pathlib\n")
		for _, a := range arguments {
			fmt.Fprintf(&source, "try:\n  %s(%s)\nexcept BaseException: pass\n", f, a)
		}
		orPanic(t, f, func() {
			testRun(t, &txtar.Archive{Files: []txtar.File{{Name: "main.py", Data: []byte(source.String())}}}).Import("main")
		})
	}

	for _, mod := range sortedKeys(models) {
		for _, name := range sortedKeys(models[mod]) {
			r := testRun(t, &txtar.Archive{Files: []txtar.File{{Name: "main.py"}}})
			r.Import("main")
			for _, list := range [][]value{nil, {nil}, {"x", nil, nil}, {int64(3), int64(3)}, {&list{}, &list{}, &list{}}, {unknownf("it"), unknownf("it")}} {
				for _, open := range []bool{false, true} {
					r.raised, r.stop = nil, ""
					orPanic(t, mod+"."+name, func() {
						r.inFrame(&frame{module: r.newModule("main", "/main.py"), vars: r.newNames(), file: "/main.py"}, func() {
							r.call(models[mod][name](r), &args{pos: list, open: open})
						})
					})
				}
			}
		}
	}
}

// orPanic runs a function, and fails the test if it panics.
func orPanic(t *testing.T, name string, f func()) {
	t.Helper()
	defer func() {
		if e := recover(); e != nil {
			_, at, _ := strings.Cut(string(debug.Stack()), "panic.go:")
			t.Errorf("%s: %v\n%.400s", name, e, at)
		}
	}()
	f()
}
