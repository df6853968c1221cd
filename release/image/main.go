//go:build ignore

// Command image is run and built by the name of this file: `go run ./release/image/main.go`.
// So `go install ./...`, which is pre-commit's, installs imgcheck alone.
package main

import "github.com/imgcheck/imgcheck/release/image"

func main() { image.Main() }
