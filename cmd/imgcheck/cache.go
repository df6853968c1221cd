package main

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/imgcheck/imgcheck/internal/size"
	"github.com/imgcheck/imgcheck/pkg/layers"
	"github.com/imgcheck/imgcheck/pkg/provide"
)

func cacheCommand() *cli.Command {
	return &cli.Command{
		Name:      "cache",
		Usage:     "show where the cache is and how large, or clean it",
		UsageText: "imgcheck cache [--cache-dir DIR] [path|clean]",
		Description: "The cache keeps the index of each layer, by its digest, and the report of each image: an unchanged\n" +
			"image is not read again, and of a rebuilt image only the new layers are read.\n" +
			"Any number of processes may share it. When it is full, the least recently used files go first.\n\n" +
			"Examples:\n" +
			"   imgcheck cache\n" +
			"   imgcheck cache path\n" +
			"   imgcheck cache clean",
		Flags: []cli.Flag{cacheDirFlag()},
		Action: func(c *cli.Context) error {
			cache, err := namedCache(c)
			if err != nil {
				return err
			}
			switch {
			case c.NArg() == 0:
				return showCache(c, cache)
			case c.NArg() == 1 && c.Args().First() == "path":
				_, err = fmt.Fprintln(c.App.Writer, cache.Dir)
				return err
			case c.NArg() == 1 && c.Args().First() == "clean":
				n, total, err := cache.Clean()
				if err == nil {
					files, bytes := provide.Clean(downloads(cache.Dir))
					_, err = fmt.Fprintf(c.App.Writer, "removed %s of %s from %s\n", countFiles(n+files), size.Text(total+bytes), cache.Dir)
				}
				return err
			}
			return fmt.Errorf("there is no `cache %s`: say `imgcheck cache`, `cache path` or `cache clean`", strings.Join(c.Args().Slice(), " "))
		},
	}
}

func showCache(c *cli.Context, cache *layers.Cache) error {
	files, err := cache.Files()
	if err != nil {
		return err
	}
	total := int64(0)
	for _, f := range files {
		total += f.Size
	}
	_, err = fmt.Fprintf(c.App.Writer, "%s\n%s, %s of at most %s\n", cache.Dir, countFiles(len(files)), size.Text(total), size.Text(cache.Max))
	if n, fetched := provide.Usage(downloads(cache.Dir)); err == nil && n > 0 {
		_, err = fmt.Fprintf(c.App.Writer, "%s downloaded by patch, %s\n", countFiles(n), size.Text(fetched))
	}
	return err
}

func countFiles(n int) string {
	if n == 1 {
		return "1 file"
	}
	return fmt.Sprintf("%d files", n)
}

// downloads returns the directory where patch keeps the files that it downloads.
func downloads(dir string) string { return filepath.Join(dir, "downloads") }

func cacheDirFlag() cli.Flag {
	return &cli.StringFlag{Name: "cache-dir", Usage: "keep the cache in `DIR`", DefaultText: "$IMGCHECK_CACHE, or imgcheck in the user's cache directory"}
}

// cacheFlags returns the flags of every command that reads layers.
func cacheFlags() []cli.Flag {
	return []cli.Flag{
		cacheDirFlag(),
		&cli.BoolFlag{Name: "no-cache", Usage: "neither use the cache nor write to it"},
	}
}

// namedCache returns the cache that the flags name, whether its directory exists or not.
func namedCache(c *cli.Context) (*layers.Cache, error) {
	dir := c.String("cache-dir")
	if dir == "" {
		var err error
		if dir, err = layers.DefaultCacheDir(); err != nil {
			return nil, err
		}
	}
	return &layers.Cache{Dir: dir, Max: layers.DefaultCacheMax}, nil
}

// openCache opens the cache that the flags name. Without --cache-dir, a cache that
// cannot be opened is left out, and note gets the reason; with it, that is an error, unless
// only its key is missing.
func openCache(c *cli.Context, note func(string)) (*layers.Cache, error) {
	if c.Bool("no-cache") {
		return nil, nil
	}
	cache, err := namedCache(c)
	if err == nil {
		cache, err = layers.OpenCache(cache.Dir, cache.Max)
	}
	if err != nil && (c.String("cache-dir") == "" || errors.Is(err, layers.ErrNoKey)) {
		note("without a cache: " + err.Error())
		return nil, nil
	}
	return cache, err
}
