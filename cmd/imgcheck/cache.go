package main

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/imgcheck/imgcheck/internal/size"
	"github.com/imgcheck/imgcheck/pkg/indexes"
	"github.com/imgcheck/imgcheck/pkg/layers"
	"github.com/imgcheck/imgcheck/pkg/provide"
	"github.com/imgcheck/imgcheck/pkg/source"
)

func cacheCommand() *cli.Command {
	return &cli.Command{
		Name:      "cache",
		Usage:     "show where the cache is and how large, clean it, or move it",
		UsageText: "imgcheck cache [options] [path|clean|push REPO|pull REPO]",
		Description: "The cache keeps the index of each layer, by its digest, and the report of each image: an unchanged\n" +
			"image is not read again, and of a rebuilt image only the new layers are read.\n" +
			"Any number of processes may share it. When it is full, the least recently used files go first.\n\n" +
			"cache push stores its files in a registry as REPO[:TAG], cache pull adds those that are stored there. They\n" +
			"are believed where the key is the same: set IMGCHECK_CACHE_KEY to one secret on all machines.\n\n" +
			"Examples:\n" +
			"   imgcheck cache\n" +
			"   imgcheck cache path\n" +
			"   imgcheck cache clean\n" +
			"   imgcheck cache push ghcr.io/org/imgcheck-cache",
		Flags: fromEnvironment([]cli.Flag{cacheDirFlag(), insecureFlag()}),
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
			case c.NArg() == 2 && (c.Args().First() == "push" || c.Args().First() == "pull"):
				return moveCache(c, cache)
			}
			return fmt.Errorf("there is no `cache %s`: say `imgcheck cache`, `cache path`, `cache clean`, `cache push REPO` or `cache pull REPO`", strings.Join(c.Args().Slice(), " "))
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

// moveCache stores the cache in a registry, or adds the files of one that is there.
func moveCache(c *cli.Context, cache *layers.Cache) error {
	ref, err := source.ParseReference(c.Args().Get(1), c.Bool("insecure"))
	if err != nil {
		return fmt.Errorf("%s: %w", oneLine(c.Args().Get(1)), err)
	}
	if cache, err = layers.OpenCache(cache.Dir, cache.Max); err != nil {
		return err
	}
	move, did, left := indexes.PushCache, "stored", "too many for one artifact, or written with another key"
	if c.Args().First() == "pull" {
		move, did, left = indexes.PullCache, "fetched", "written with another key, or more than fit (IMGCHECK_CACHE_KEY must be the same)"
	}
	m, err := move(c.Context, cache, ref, source.Options{Insecure: c.Bool("insecure")})
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(c.App.Writer, "%s\n%s %s, %s\n", m.At, countFiles(m.Files), did, size.Text(m.Bytes))
	if m.There > 0 {
		fmt.Fprintf(c.App.Writer, "%s there already\n", countFiles(m.There))
	}
	if m.Left > 0 {
		fmt.Fprintf(c.App.ErrWriter, "imgcheck: %s left out: %s\n", countFiles(m.Left), left)
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
