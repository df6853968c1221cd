//go:build ignore

// Command imports is run by the name of this file, `go run ./test/imports/main.go`, so that
// `go install ./...`, as pre-commit runs it, installs imgcheck alone.
package main

import "github.com/imgcheck/imgcheck/test/imports"

func main() { imports.Main() }
