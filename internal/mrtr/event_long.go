package mrtr

import "bytes"

// A longEvent is an event whose data does not fit the cap, while it passes.
type longEvent struct {
	judge   *AnswerStream // nil: nothing that could hold a state
	lines   int           // data lines so far
	inValue bool          // of a data line
	out     []byte        // reused
}

// beginLong goes over to passing on the event of which some is held.
func (e *EventWriter) beginLong() error {
	held := e.held
	e.held, e.line = nil, 0
	e.long = &longEvent{}
	if e.judged(held) {
		e.long.judge = e.exchange.Stream(e.limit)
	}
	if !e.begun && bytes.HasPrefix(held, []byte(byteOrderMark)) {
		if err := e.write([]byte(byteOrderMark)); err != nil {
			return err
		}
		held = held[len(byteOrderMark):]
	}
	e.begun = true
	for pos := 0; pos < len(held); {
		content, next := cutLine(held, pos)
		if err := e.takeLong(held[pos:next], content.end < next); err != nil {
			return err
		}
		pos = next
	}
	return nil
}

// judged reports whether the data, of which the beginning is held, could be a
// message.
func (e *EventWriter) judged(held []byte) bool {
	data := parseEvent(held, !e.begun).data
	return e.as != Anything || LooksLikeJSON(data) || len(bytes.TrimSpace(data)) == 0
}

// takeLong takes the next part of a line, its end included if it is complete.
func (e *EventWriter) takeLong(part []byte, complete bool) error {
	if !e.long.inValue {
		e.held = append(e.held, part...)
		start, isValue := e.valueStart(complete)
		if !isValue {
			return e.otherLine(complete)
		}
		head := e.held[:start]
		part = e.held[start:]
		e.held = nil
		if err := e.beginValue(head); err != nil {
			return err
		}
	}
	value := part
	if complete {
		value = bytes.TrimRight(part, "\r\n")
		e.long.inValue = false
	}
	if err := e.passValue(value); err != nil {
		return err
	}
	return e.write(part[len(value):])
}

// valueStart tells whether the line that is held is known to be data, and where its
// value begins. Without its end that is not known before the byte after the colon.
func (e *EventWriter) valueStart(complete bool) (int, bool) {
	content := bytes.TrimRight(e.held, "\r\n")
	switch colon := len(dataField); {
	case complete && string(content) == dataField:
		return colon, true
	case !bytes.HasPrefix(content, []byte(dataField+":")) || !complete && len(content) == colon+1:
		return 0, false
	case len(content) > colon+1 && content[colon+1] == ' ':
		return colon + 2, true
	default:
		return colon + 1, true
	}
}

// otherLine passes a line that is not data, once it is complete.
func (e *EventWriter) otherLine(complete bool) error {
	if len(e.held) > e.limit {
		return ErrEventTooLong
	}
	if !complete {
		return nil
	}
	line := e.held
	e.held = nil
	content := bytes.TrimRight(line, "\r\n")
	if hidesData(content) {
		return ErrNotData
	}
	if len(content) == 0 {
		if err := e.endLong(); err != nil {
			return err
		}
	}
	return e.write(line)
}

func (e *EventWriter) beginValue(head []byte) error {
	e.long.inValue = true
	if e.long.lines++; e.long.lines > 1 && e.long.judge != nil {
		if err := e.long.judge.Newline(); err != nil {
			return err
		}
	}
	return e.write(head)
}

func (e *EventWriter) passValue(value []byte) error {
	if e.long.judge == nil {
		return e.write(value)
	}
	out, err := e.long.judge.Next(e.long.out[:0], value)
	e.long.out = out
	if err != nil {
		return err
	}
	return e.write(out)
}

// endLong ends the event: at the blank line, or with the stream.
func (e *EventWriter) endLong() error {
	long, rest := e.long, e.held
	e.long, e.held, e.hasData = nil, nil, false
	if hidesData(rest) {
		return ErrNotData
	}
	if err := e.write(rest); err != nil {
		return err
	}
	if long.judge == nil {
		return nil
	}
	return long.judge.End()
}
