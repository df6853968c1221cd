package main

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"syscall"

	"github.com/urfave/cli/v2"

	"github.com/imgcheck/imgcheck/pkg/report"
	"github.com/imgcheck/imgcheck/pkg/serve"
)

func serveCommand() *cli.Command {
	return &cli.Command{
		Name:      "serve",
		Usage:     "show saved reports in a browser",
		UsageText: "imgcheck serve [options] REPORT|DIRECTORY...",
		Description: "REPORT is a file that `imgcheck scan -o json=FILE` or `-o html=FILE` wrote. serve prints an address of\n" +
			"this machine, at which a browser finds an overview of all reports, also of those in a DIRECTORY and\n" +
			"below it, and a page for each. A reload reads the files again. It ends with Ctrl-C.\n\n" +
			"Only this machine can reach the address. It begins with a key, which is new each time; serve refuses\n" +
			"requests without the key. If serve opens the browser, other users of the machine may see the address\n" +
			"in the list of processes. serve writes nothing, and opens no other files; it does not follow links in\n" +
			"a DIRECTORY.\n\n" +
			"Examples:\n" +
			"   imgcheck serve report.json\n" +
			"   imgcheck serve --port 8080 reports/",
		Flags: []cli.Flag{
			&cli.IntFlag{Name: "port", Aliases: []string{"p"}, Usage: "listen on port `N` of 127.0.0.1", DefaultText: "one that is free"},
			&cli.BoolFlag{Name: "open", Usage: "open the browser; without the flag on a terminal with a display, with --open=false never"},
		},
		Action: func(c *cli.Context) error {
			if c.NArg() == 0 {
				return errors.New("serve takes reports or directories, not 0: see `imgcheck serve --help`")
			}
			port := c.Int("port")
			if port < 0 || port > 65535 {
				return fmt.Errorf("--port %d: say a number from 1 to 65535", port)
			}
			s, err := serve.New(c.Args().Slice(), report.Options{Version: version()})
			if err != nil {
				return err
			}
			var config net.ListenConfig
			l, err := config.Listen(c.Context, "tcp4", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
			if errors.Is(err, syscall.EADDRINUSE) {
				return fmt.Errorf("port %d is in use: say another one, or leave out --port", port)
			}
			if err != nil {
				return err
			}
			defer l.Close()
			url := s.URL(l.Addr())
			fmt.Fprintf(c.App.Writer, "Serving reports at %s (Ctrl-C ends it)\n", url)
			if c.Bool("open") || !c.IsSet("open") && display(c.App.Writer) {
				if err := openBrowser(url); err != nil {
					fmt.Fprintf(c.App.ErrWriter, "imgcheck: open the address yourself: %s\n", oneLine(err.Error()))
				}
			}
			return s.Run(c.Context, l)
		},
	}
}

// display reports whether a person at a screen reads what the program writes.
func display(w io.Writer) bool {
	return isTerminal(w) && (runtime.GOOS == "darwin" && os.Getenv("SSH_CONNECTION") == "" || os.Getenv("DISPLAY") != "" || os.Getenv("WAYLAND_DISPLAY") != "")
}

// openBrowser starts the system's program that opens an address, and does not wait for it.
func openBrowser(url string) error {
	name := "xdg-open"
	if runtime.GOOS == "darwin" {
		name = "open"
	}
	cmd := exec.Command(name, url)
	if err := cmd.Start(); err != nil {
		return err
	}
	go cmd.Wait() // its status says nothing that a user could use
	return nil
}
