package artifacts

import (
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"runtime/debug"
	"strings"
	"time"
)

// The parts of an SPDX 2.3 document that a bill of materials of a Go program has (spdx.github.io/spdx-spec/v2.3).
type (
	spdxDocument struct {
		SPDXVersion       string             `json:"spdxVersion"`
		DataLicense       string             `json:"dataLicense"`
		SPDXID            string             `json:"SPDXID"`
		Name              string             `json:"name"`
		DocumentNamespace string             `json:"documentNamespace"`
		CreationInfo      spdxCreation       `json:"creationInfo"`
		Packages          []spdxPackage      `json:"packages"`
		Relationships     []spdxRelationship `json:"relationships"`
	}
	spdxCreation struct {
		Created  string   `json:"created"`
		Creators []string `json:"creators"`
	}
	spdxPackage struct {
		Name             string          `json:"name"`
		SPDXID           string          `json:"SPDXID"`
		VersionInfo      string          `json:"versionInfo"`
		DownloadLocation string          `json:"downloadLocation"`
		FilesAnalyzed    bool            `json:"filesAnalyzed"`
		LicenseConcluded string          `json:"licenseConcluded"`
		LicenseDeclared  string          `json:"licenseDeclared"`
		CopyrightText    string          `json:"copyrightText"`
		Checksums        []spdxChecksum  `json:"checksums,omitempty"`
		ExternalRefs     []spdxReference `json:"externalRefs,omitempty"`
	}
	spdxChecksum struct {
		Algorithm     string `json:"algorithm"`
		ChecksumValue string `json:"checksumValue"`
	}
	spdxReference struct {
		Category string `json:"referenceCategory"`
		Type     string `json:"referenceType"`
		Locator  string `json:"referenceLocator"`
	}
	spdxRelationship struct {
		Element string `json:"spdxElementId"`
		Type    string `json:"relationshipType"`
		Related string `json:"relatedSpdxElement"`
	}
)

const noAssertion = "NOASSERTION"

// writeSBOM writes what a program is linked from, as the go command recorded it in the program itself.
func (r *Release) writeSBOM(b *binary) error {
	build, err := buildinfo.ReadFile(b.path)
	if err != nil {
		return fmt.Errorf("bill of materials of %s: %w", b.path, err)
	}
	program, err := os.ReadFile(b.path)
	if err != nil {
		return err
	}
	data, err := json.MarshalIndent(r.sbom(b, build, sha256.Sum256(program)), "", "  ")
	if err != nil {
		return err
	}
	b.sbom = r.fileName(b, ".spdx.json")
	return r.create(b.sbom, append(data, '\n'))
}

func (r *Release) sbom(b *binary, build *debug.BuildInfo, digest [sha256.Size]byte) *spdxDocument {
	sum := hex.EncodeToString(digest[:])
	main := spdxPackage{
		Name: b.program, SPDXID: "SPDXRef-" + b.program, VersionInfo: r.Version, DownloadLocation: noAssertion,
		LicenseConcluded: "Apache-2.0", LicenseDeclared: "Apache-2.0", CopyrightText: noAssertion,
		Checksums:    []spdxChecksum{{"SHA256", sum}},
		ExternalRefs: []spdxReference{purl("pkg:golang/" + build.Main.Path + "@" + r.Version)},
	}
	d := &spdxDocument{
		SPDXVersion: "SPDX-2.3", DataLicense: "CC0-1.0", SPDXID: "SPDXRef-DOCUMENT",
		Name:              b.program + "-" + r.Version + "-" + b.platform.OS + "-" + b.platform.Arch,
		DocumentNamespace: "https://hilbert.dev/spdx/" + b.program + "-" + sum,
		CreationInfo:      spdxCreation{Created: r.Time.UTC().Format(time.RFC3339), Creators: []string{"Tool: hilbert-release"}},
		Packages:          []spdxPackage{main},
		Relationships:     []spdxRelationship{{"SPDXRef-DOCUMENT", "DESCRIBES", main.SPDXID}},
	}
	add := func(path, version, purlName string) {
		p := spdxPackage{
			Name: path, SPDXID: spdxID(path, version), VersionInfo: version, DownloadLocation: noAssertion,
			LicenseConcluded: noAssertion, LicenseDeclared: noAssertion, CopyrightText: noAssertion,
			ExternalRefs: []spdxReference{purl("pkg:golang/" + purlName + "@" + version)},
		}
		d.Packages = append(d.Packages, p)
		d.Relationships = append(d.Relationships, spdxRelationship{main.SPDXID, "DEPENDS_ON", p.SPDXID})
	}
	add("go", strings.TrimPrefix(build.GoVersion, "go"), "stdlib")
	for _, m := range build.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		add(m.Path, m.Version, m.Path)
	}
	return d
}

func purl(locator string) spdxReference { return spdxReference{"PACKAGE-MANAGER", "purl", locator} }

// spdxID is an identifier of a module: letters, digits, dots and dashes only.
func spdxID(path, version string) string {
	return "SPDXRef-" + strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '.':
			return r
		}
		return '-'
	}, path+"-"+version)
}
