package gate

import (
	"fmt"
	"strings"
)

// Splice puts text between the lines <!-- NAME --> and <!-- /NAME --> of a
// Markdown document, in the place of what is there.
func Splice(document, name, text string) (string, error) {
	begin, end := "<!-- "+name+" -->\n", "<!-- /"+name+" -->"
	before, rest, ok := strings.Cut(document, begin)
	if !ok {
		return "", fmt.Errorf("no line %q: add it where the text is to go", strings.TrimSpace(begin))
	}
	_, after, ok := strings.Cut(rest, end)
	if !ok {
		return "", fmt.Errorf("no line %q after %q", end, strings.TrimSpace(begin))
	}
	return before + begin + text + end + after, nil
}
