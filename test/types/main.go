//go:build ignore

// Command types checks the types of packages, and of all that they import, for another operating
// system: what `GOOS=… go build` would find, without code being made of a thousand packages.
//
//	go run ./test/types/main.go GOOS...
package main

import (
	"fmt"
	"log"
	"os"

	"golang.org/x/tools/go/packages"
)

func main() {
	log.SetFlags(0)
	if len(os.Args) < 2 {
		log.Fatal("types takes operating systems as GOOS names them")
	}
	wrong := false
	for _, system := range os.Args[1:] {
		n, err := check(system)
		if err != nil {
			log.Fatal(err)
		}
		wrong = wrong || n > 0
	}
	if wrong {
		os.Exit(1)
	}
}

// check returns the number of errors, which it prints.
func check(system string) (int, error) {
	all, err := packages.Load(&packages.Config{
		Mode: packages.NeedName | packages.NeedFiles | packages.NeedCompiledGoFiles | packages.NeedImports | packages.NeedDeps |
			packages.NeedTypes | packages.NeedTypesSizes | packages.NeedTypesInfo | packages.NeedSyntax,
		Env: append(os.Environ(), "CGO_ENABLED=0", "GOOS="+system),
	}, "./...")
	if err != nil {
		return 0, err
	}
	if len(all) == 0 {
		return 0, fmt.Errorf("%s: no packages", system)
	}
	wrong := 0
	packages.Visit(all, nil, func(p *packages.Package) {
		for _, err := range p.Errors {
			wrong++
			fmt.Fprintf(os.Stderr, "%s: %s: %v\n", system, p.PkgPath, err)
		}
	})
	return wrong, nil
}
