package mrtr

import (
	"bytes"
	"unicode"
)

// An event is one event of a stream, taken apart.
type event struct {
	raw   []byte
	data  []byte     // the values of the data lines, joined by LF
	lines []dataLine // in order
}

// A dataLine says where a data line lies.
type dataLine struct {
	line  span // in raw, its end included
	value span // in raw
	start int  // of the value in the event's data
}

// parseEvent takes the lines of an event apart. At the start of a stream they
// may begin with a byte order mark.
func parseEvent(raw []byte, streamStart bool) *event {
	ev := &event{raw: raw}
	pos := 0
	if streamStart && bytes.HasPrefix(raw, []byte(byteOrderMark)) {
		pos = len(byteOrderMark)
	}
	for pos < len(raw) {
		content, next := cutLine(raw, pos)
		if isData(content.of(raw)) {
			ev.add(span{pos, next}, content)
		}
		pos = next
	}
	return ev
}

func (ev *event) add(line, content span) {
	value := span{min(content.start+len("data:"), content.end), content.end}
	if value.start < value.end && ev.raw[value.start] == ' ' {
		value.start++
	}
	if len(ev.lines) > 0 {
		ev.data = append(ev.data, '\n')
	}
	ev.lines = append(ev.lines, dataLine{line, value, len(ev.data)})
	ev.data = append(ev.data, value.of(ev.raw)...)
}

// cutLine returns the content of the line that begins at pos, and where the next
// one begins. Lines end with LF, CRLF or CR, or at the end of the text.
func cutLine(raw []byte, pos int) (content span, next int) {
	i := bytes.IndexAny(raw[pos:], "\r\n")
	if i < 0 {
		return span{pos, len(raw)}, len(raw)
	}
	end := pos + i
	next = end + 1
	if raw[end] == '\r' && next < len(raw) && raw[next] == '\n' {
		next++
	}
	return span{pos, end}, next
}

// isData reports whether a line is a data field. Field names have one case.
func isData(content []byte) bool {
	name, _, _ := bytes.Cut(content, []byte(":"))
	return string(name) == dataField
}

const dataField = "data"

// hidesData reports whether a line that is no data field may carry a state to a parser
// for which it is one, or which sees more lines in it than there are: those of some
// languages end at other characters too.
func hidesData(content []byte) bool {
	if isData(content) || !MayCarry(content) {
		return false
	}
	for line := range bytes.FieldsFuncSeq(content, endsLine) {
		if isData(line) || looksLikeData(line) {
			return true
		}
	}
	return false
}

func endsLine(r rune) bool {
	return r == '\v' || r == '\f' || 0x1c <= r && r <= 0x1e || r == 0x85 || r == 0x2028 || r == 0x2029
}

// looksLikeData reports whether a line that is no data field might be one for a
// parser that trims names or looks away from their case.
func looksLikeData(content []byte) bool {
	name, _, _ := bytes.Cut(content, []byte(":"))
	name = bytes.TrimFunc(withoutNUL(name), func(r rune) bool { return unicode.IsSpace(r) || r == '\uFEFF' })
	return !isData(content) && bytes.EqualFold(name, []byte(dataField))
}

// apply returns the event with the edits made in its data. An edit within one
// line changes no other byte. Others have the data written anew, where it began.
func (ev *event) apply(edits []Edit) []byte {
	inPlace := make([]Edit, len(edits))
	line := 0
	for i, edit := range edits {
		for line+1 < len(ev.lines) && ev.lines[line+1].start <= edit.Start {
			line++
		}
		l := ev.lines[line]
		shift := l.value.start - l.start
		if edit.End+shift > l.value.end {
			return ev.rewrite(Replace(ev.data, edits...))
		}
		inPlace[i] = Edit{edit.Start + shift, edit.End + shift, edit.Text}
	}
	return Replace(ev.raw, inPlace...)
}

// rewrite returns the event with other data, all of it in the place of the first
// data line.
func (ev *event) rewrite(data []byte) []byte {
	first := ev.lines[0]
	ending := ev.raw[first.value.end:first.line.end]
	var lines []byte
	for part := range bytes.SplitSeq(data, []byte("\n")) {
		lines = append(append(append(lines, "data: "...), part...), ending...)
	}
	edits := []Edit{{first.line.start, first.line.end, lines}}
	for _, l := range ev.lines[1:] {
		edits = append(edits, Edit{l.line.start, l.line.end, nil})
	}
	return Replace(ev.raw, edits...)
}
