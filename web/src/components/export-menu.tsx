import { ChevronDown, Download } from "lucide-react";
import { useState } from "react";
import { Button } from "@/components/ui/button";
import { Menu, MenuContent, MenuItem, MenuTrigger } from "@/components/ui/menu";
import { useNotify } from "@/components/ui/toast";
import { saveBlob } from "@/lib/download";
import { requestBlob } from "@/lib/request";

export const exportFormats = {
  csv: { label: "CSV", hint: "for tables", extension: "csv" },
  sarif: { label: "SARIF", hint: "2.1.0", extension: "sarif" },
  "cyclonedx-json": { label: "CycloneDX", hint: "1.6, with vulnerabilities", extension: "vex.cdx.json" },
  "spdx-json": { label: "SPDX", hint: "2.3", extension: "spdx.json" },
  openvex: { label: "OpenVEX", hint: "decisions", extension: "openvex.json" },
  "cyclonedx-vex": { label: "CycloneDX VEX", hint: "decisions", extension: "decisions.cdx.json" },
} as const;

export type ExportFormat = keyof typeof exportFormats;

export const allFormats = Object.keys(exportFormats) as ExportFormat[];

/** Fetches documents and hands them to the browser as files, one at a time. */
export function useDownload() {
  const notify = useNotify();
  const [busy, setBusy] = useState(false);
  const download = async (what: string, name: string, load: () => Promise<Blob>) => {
    setBusy(true);
    try {
      saveBlob(await load(), name);
    } catch (error) {
      notify.failed(`Could not download ${what}`, error);
    } finally {
      setBusy(false);
    }
  };
  return { busy, download };
}

/** Downloads what the filters keep, on all pages, as one document. */
export function ExportMenu<Format extends ExportFormat>({
  formats,
  name,
  url,
}: {
  formats: Format[];
  /** Of the file, without its extension. */
  name: string;
  url: (format: Format) => string;
}) {
  const { busy, download } = useDownload();
  const start = (format: Format) => {
    const { label, extension } = exportFormats[format];
    void download(label, `${name}.${extension}`, () => requestBlob(url(format), "*/*"));
  };
  const [only, ...others] = formats;
  if (only && others.length === 0) {
    return (
      <Button disabled={busy} onClick={() => start(only)} title="Download all rows that match the filters">
        <Download aria-hidden />
        {busy ? "Exporting…" : exportFormats[only].label}
      </Button>
    );
  }
  return (
    <Menu modal={false}>
      <MenuTrigger disabled={busy}>
        <Download aria-hidden />
        {busy ? "Exporting…" : "Export"}
        <ChevronDown aria-hidden />
      </MenuTrigger>
      <MenuContent>
        {formats.map((format) => (
          <MenuItem key={format} onClick={() => start(format)}>
            <span>
              {exportFormats[format].label} <span className="text-muted">{exportFormats[format].hint}</span>
            </span>
          </MenuItem>
        ))}
      </MenuContent>
    </Menu>
  );
}
