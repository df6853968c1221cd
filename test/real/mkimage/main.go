//go:build ignore

// Command mkimage is run and built by the name of this file: `go run ./test/real/mkimage/main.go`.
// So `go install ./...`, which is pre-commit's, installs imgcheck alone.
package main

import "github.com/imgcheck/imgcheck/test/real/mkimage"

func main() { mkimage.Main() }
