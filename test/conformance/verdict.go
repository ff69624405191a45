package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"regexp"
	"slices"
	"strconv"
)

// Status values of a check, as the suite writes them.
const (
	success = "SUCCESS"
	failure = "FAILURE"
)

// statuses are all that the suite knows. Another one would be a suite that this code was not written for.
var statuses = []string{success, failure, "WARNING", "SKIPPED", "INFO"}

// check is one check of a scenario, as the suite writes it to checks.json.
type check struct {
	// ID repeats where a scenario checks the same thing several times.
	ID string `json:"id"`
	// Status is one of statuses.
	Status string `json:"status"`
	// ErrorMessage says why the status is what it is; often empty.
	ErrorMessage string `json:"errorMessage"`
}

// verdicts are the checks of a run by scenario, in the order in which the suite made them.
type verdicts map[string][]check

// resultFolder is the name of a scenario's folder: "server-", the scenario, and the time of the run.
var resultFolder = regexp.MustCompile(`^server-(.+)-\d{4}-\d{2}-\d{2}T\d{2}-\d{2}-\d{2}-\d{3}Z$`)

// readVerdicts reads the folder that the suite was told to write to. What is not as expected is an error: a check that is not seen cannot be compared.
func readVerdicts(dir fs.FS) (verdicts, error) {
	folders, err := fs.ReadDir(dir, ".")
	if err != nil {
		return nil, err
	}
	v := verdicts{}
	for _, folder := range folders {
		match := resultFolder.FindStringSubmatch(folder.Name())
		if match == nil {
			return nil, fmt.Errorf("%s is not the folder of a scenario", folder.Name())
		}
		scenario := match[1]
		if _, twice := v[scenario]; twice {
			return nil, fmt.Errorf("there are two results of %s", scenario)
		}
		if v[scenario], err = readChecks(dir, folder.Name()+"/checks.json"); err != nil {
			return nil, fmt.Errorf("%s: %w", scenario, err)
		}
	}
	if len(v) == 0 {
		return nil, errors.New("the suite wrote no results")
	}
	return v, nil
}

func readChecks(dir fs.FS, path string) ([]check, error) {
	content, err := fs.ReadFile(dir, path)
	if err != nil {
		return nil, err
	}
	var checks []check
	if err := json.Unmarshal(content, &checks); err != nil {
		return nil, err
	}
	if len(checks) == 0 {
		return nil, errors.New("no checks")
	}
	for _, c := range checks {
		if c.ID == "" || !slices.Contains(statuses, c.Status) {
			return nil, fmt.Errorf("check %q has the status %q", c.ID, c.Status)
		}
	}
	return checks, nil
}

// count returns how many checks have a status.
func (v verdicts) count(status string) int {
	n := 0
	for _, checks := range v {
		for _, c := range checks {
			if c.Status == status {
				n++
			}
		}
	}
	return n
}

// passes tells whether a scenario was run and each of its checks is a success. A warning is none.
func (v verdicts) passes(scenario string) bool {
	checks := v[scenario]
	return len(checks) > 0 && !slices.ContainsFunc(checks, func(c check) bool { return c.Status != success })
}

// scenarios returns the names of the scenarios, sorted.
func (v verdicts) scenarios() []string { return slices.Sorted(maps.Keys(v)) }

// totalLine is where the suite says what it counted.
var totalLine = regexp.MustCompile(`(?m)^Total: (\d+) passed, (\d+) failed$`)

// agree returns an error unless the suite counted what was read from its results, so that none of them was missed.
func (v verdicts) agree(output string) error {
	match := totalLine.FindStringSubmatch(output)
	if match == nil {
		return errors.New("the suite did not come to its end")
	}
	passed, _ := strconv.Atoi(match[1]) // digits
	failed, _ := strconv.Atoi(match[2])
	if passed != v.count(success) || failed != v.count(failure) {
		return fmt.Errorf("the suite counts %d passed and %d failed, its results are %d and %d", passed, failed, v.count(success), v.count(failure))
	}
	return nil
}

// closing returns the suite's own closing lines, from its total on.
func closing(output string) string {
	if at := totalLine.FindStringIndex(output); at != nil {
		return output[at[0]:]
	}
	return ""
}
