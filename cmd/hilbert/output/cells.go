package output

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
)

// Rows writes lines of cells in columns.
func Rows(w io.Writer, lines [][]string) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, cells := range lines {
		for len(cells) > 0 && cells[len(cells)-1] == "" {
			cells = cells[:len(cells)-1] // no blanks at the end of a line
		}
		if _, err := fmt.Fprintln(table, strings.Join(cells, "\t")); err != nil {
			return err
		}
	}
	return table.Flush()
}

// Memory writes MiB as people do.
func Memory(mebibytes int64) string {
	const gibibyte, fewDigits = 1024, 100
	switch {
	case mebibytes < gibibyte:
		return strconv.FormatInt(mebibytes, 10) + "Mi"
	case mebibytes < fewDigits*gibibyte && mebibytes%gibibyte != 0:
		return strconv.FormatFloat(float64(mebibytes)/gibibyte, 'f', 1, 64) + "Gi"
	}
	return strconv.FormatInt(mebibytes/gibibyte, 10) + "Gi"
}

func OrDash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}

// Cores writes thousandths of a CPU as people do: "2.5".
func Cores(milli int64) string {
	const thousand, bits = 1000, 64
	return strconv.FormatFloat(float64(milli)/thousand, 'f', -1, bits)
}
