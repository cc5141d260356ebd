import { SimpleTable } from "@kinvolk/headlamp-plugin/lib/CommonComponents";
import { Box, Chip, type ChipProps, Link, Typography } from "@mui/material";
import type { ReactNode } from "react";
import type { Counts, FixItem, Image, VulnerabilitySummary } from "../../../web/src/gen/model";
import { formatNumber, formatPercent, formatRisk } from "../../../web/src/lib/format";
import { imagePath, parseImageId } from "../../../web/src/lib/image-id";
import { vulnerabilityPath } from "../../../web/src/lib/paths";
import { describeCounts, severities, type SeverityKey, severityKey } from "../../../web/src/lib/severity";

// Everything here comes from images, registries and other users. It is text; the client has replaced what is invisible.

const look: Record<SeverityKey, Pick<ChipProps, "color" | "variant">> = {
  critical: { color: "error", variant: "filled" },
  high: { color: "error", variant: "outlined" },
  medium: { color: "warning", variant: "outlined" },
  low: { color: "info", variant: "outlined" },
  negligible: { color: "default", variant: "outlined" },
  unknown: { color: "default", variant: "outlined" },
};

const breaking = { overflowWrap: "anywhere" };

/** A label in the color of text: some of Headlamp's colors are too dark for texts in its dark theme. */
function Label({
  color,
  variant = "outlined",
  children,
}: Pick<ChipProps, "color" | "variant"> & { children: string }) {
  return (
    <Chip
      size="small"
      color={color}
      variant={variant}
      label={children}
      sx={
        variant === "outlined"
          ? { color: "text.primary", ...(color !== "default" && { borderColor: `${color}.main` }) }
          : undefined
      }
    />
  );
}

/** The number of findings by severity, and of those that are exploited or overdue. */
export function CountChips({ counts, overdue }: { counts: Counts; overdue: number }) {
  const labels = [
    ...severities.map(({ key, name }) => ({ name, count: counts[key], ...look[key] })),
    { name: "Known exploited", count: counts.kev, color: "error" },
    { name: "Overdue", count: overdue, color: "error" },
    { name: "Fixable", count: counts.fixable, color: "success" },
  ] as const;
  return labels
    .filter(({ count }) => count > 0)
    .map(({ name, count, ...style }) => (
      <Label key={name} {...style}>
        {`${name} ${formatNumber(count)}`}
      </Label>
    ));
}

/** A link to the UI of the operator, or only its text if the address of the UI is not configured. */
export function UILink({
  ui,
  path,
  children,
}: {
  ui: string | undefined;
  path: string;
  children: ReactNode;
}) {
  if (ui === undefined) return <>{children}</>;
  return (
    <Link href={ui + path} target="_blank" rel="noopener noreferrer">
      {children}
    </Link>
  );
}

export function Vulnerabilities({ items, ui }: { items: VulnerabilitySummary[]; ui: string | undefined }) {
  return (
    <SimpleTable
      columns={[
        {
          label: "Vulnerability",
          gridTemplate: "minmax(12rem, 3fr)",
          getter: (row: VulnerabilitySummary) => (
            <Box sx={{ display: "flex", flexWrap: "wrap", gap: 1, ...breaking }}>
              <UILink ui={ui} path={vulnerabilityPath(row.id)}>
                {row.id}
              </UILink>
              {row.kev && <Label color="error">Known exploited</Label>}
            </Box>
          ),
        },
        {
          label: "Severity",
          gridTemplate: "minmax(8rem, 1fr)",
          getter: (row: VulnerabilitySummary) => (
            <Label {...look[severityKey(row.severity)]}>{row.severity}</Label>
          ),
        },
        {
          label: "Risk",
          getter: (row: VulnerabilitySummary) => formatRisk(row.risk),
        },
        {
          label: "EPSS",
          getter: (row: VulnerabilitySummary) => formatPercent(row.epss),
        },
        {
          label: "Fix",
          getter: (row: VulnerabilitySummary) => (row.fixable ? "Available" : "None"),
        },
      ]}
      data={items}
    />
  );
}

/** The name of an image, and below it the registry and the digest. */
function ImageName({ imageId, platform, ui }: { imageId: string; platform: string; ui: string | undefined }) {
  const { prefix, name, digest } = parseImageId(imageId);
  return (
    <Box title={imageId} sx={breaking}>
      <UILink ui={ui} path={imagePath(imageId, platform)}>
        {prefix + name}
      </UILink>
      <Typography variant="caption" color="text.secondary" component="div">
        {[digest, platform].filter(Boolean).join(" · ")}
      </Typography>
    </Box>
  );
}

const stateOf = ({ state, partial, reason }: Image) => {
  const name = state === "Scanned" && partial ? "Partial" : state;
  return reason ? `${name} (${reason})` : name;
};

export function Images({ items, ui }: { items: Image[]; ui: string | undefined }) {
  return (
    <SimpleTable
      columns={[
        {
          label: "Image",
          gridTemplate: "minmax(12rem, 1fr)",
          getter: (row: Image) => <ImageName imageId={row.imageId} platform={row.platform} ui={ui} />,
        },
        {
          label: "State",
          gridTemplate: "minmax(9rem, 1fr)",
          getter: (row: Image) => (
            <Box sx={breaking}>
              {stateOf(row)}
              {row.message && (
                <Typography variant="caption" color="text.secondary" component="div">
                  {row.message}
                </Typography>
              )}
            </Box>
          ),
        },
        {
          label: "Findings",
          gridTemplate: "minmax(9rem, 1fr)",
          getter: (row: Image) => (row.matchedAt ? describeCounts(row.counts) : "No result yet"),
        },
      ]}
      data={items}
    />
  );
}

export function Fixes({ items, ui }: { items: FixItem[]; ui: string | undefined }) {
  return (
    <SimpleTable
      columns={[
        {
          label: "Action",
          gridTemplate: "minmax(12rem, 2fr)",
          getter: (row: FixItem) => (
            <Box sx={breaking}>
              {row.summary}
              <Typography variant="caption" color="text.secondary" component="div">
                {`Closes: ${describeCounts(row.counts)}`}
              </Typography>
            </Box>
          ),
        },
        {
          label: "Image",
          gridTemplate: "minmax(12rem, 1fr)",
          getter: (row: FixItem) => <ImageName imageId={row.imageId} platform={row.platform} ui={ui} />,
        },
      ]}
      data={items}
    />
  );
}
