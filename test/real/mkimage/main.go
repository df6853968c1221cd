//go:build ignore

// Command mkimage is run by the name of this file, `go run ./test/real/mkimage/main.go`, so that
// `go install ./...`, as pre-commit runs it, installs imgcheck alone.
package main

import "github.com/imgcheck/imgcheck/test/real/mkimage"

func main() { mkimage.Main() }
