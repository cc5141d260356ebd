import { SectionBox } from "@kinvolk/headlamp-plugin/lib/CommonComponents";
import { Alert, AlertTitle, Box, Button, CircularProgress, Typography } from "@mui/material";
import { type ReactNode, useEffect, useState } from "react";
import type { Workload } from "../../../web/src/gen/model";
import { formatNumber, plural } from "../../../web/src/lib/format";
import { imagesOfPath } from "../../../web/src/lib/paths";
import { totalFindings } from "../../../web/src/lib/severity";
import { visible } from "../../../web/src/lib/text";
import { type Client, limits, type Results } from "./client";
import { Failure } from "./failure";
import { CountChips, Fixes, Images, UILink, Vulnerabilities } from "./rows";
import { type Settings, uiOf } from "./settings";

interface Props {
  client: Client;
  settings: Settings;
  workload: Workload;
  /** Whether the page is that of a pod, which is only a part of the workload. */
  pod: boolean;
}

/** The findings of a workload on its page and on those of its pods. A section with other properties needs another key. */
export function FindingsSection({ client, settings, workload, pod }: Props) {
  const [attempt, setAttempt] = useState(0);
  const [read, setRead] = useState<{
    attempt: number;
    outcome: Results | Failure;
  }>();

  useEffect(() => {
    const left = new AbortController();
    const done = (outcome: Results | Failure) => {
      if (!left.signal.aborted) setRead({ attempt, outcome });
    };
    client
      .results(settings, workload, left.signal)
      .then(done, (error: unknown) =>
        done(error instanceof Failure ? error : new Failure("Findings could not be read.", "Try again.")),
      );
    return () => left.abort();
    // eslint-disable-next-line react-hooks/exhaustive-deps -- the properties belong to the key
  }, [attempt]);

  const loading = read?.attempt !== attempt;
  const again = (text: string) => (
    <Button
      size="small"
      color="inherit"
      sx={{ whiteSpace: "nowrap" }}
      disabled={loading}
      onClick={() => setAttempt(attempt + 1)}
    >
      {text}
    </Button>
  );
  return (
    <SectionBox title="Findings">
      <Box sx={{ display: "flex", flexDirection: "column", gap: 2, pb: 2 }} aria-busy={loading}>
        {!read ? (
          <Box role="status" sx={{ display: "flex", alignItems: "center", gap: 1.5 }}>
            <CircularProgress size={20} aria-hidden />
            <Typography>Reading findings…</Typography>
          </Box>
        ) : read.outcome instanceof Failure ? (
          <Alert
            severity="error"
            action={again("Try again")}
            sx={{ color: "text.primary", overflowWrap: "anywhere" }}
          >
            <AlertTitle>{read.outcome.message}</AlertTitle>
            {read.outcome.advice}
          </Alert>
        ) : (
          <Found
            results={read.outcome}
            workload={workload}
            pod={pod}
            ui={uiOf(settings)}
            refresh={again("Refresh")}
          />
        )}
      </Box>
    </SectionBox>
  );
}

interface FoundProps {
  results: Results;
  workload: Workload;
  pod: boolean;
  ui: string | undefined;
  refresh: ReactNode;
}

function Found({ results, workload: { namespace, kind, name }, pod, ui, refresh }: FoundProps) {
  const { workload, images, vulnerabilities, fixes } = results;
  const title = visible(`${kind} ${name}`);
  if (!workload) {
    return (
      <Alert severity="info" sx={{ color: "text.primary" }} action={refresh}>
        <AlertTitle>{`No image of ${title} is known.`}</AlertTitle>
        Its pods have not started yet or have ended, all of its containers are skipped, or you have no
        permission to read results in this namespace.
      </Alert>
    );
  }
  const { counts, overdue = 0, imageCount, scanned } = workload;
  const findings = totalFindings(counts);
  // Findings without a fix come last.
  const actions = fixes.items.filter(({ action }) => action !== "wait");
  return (
    <>
      <Box sx={{ display: "flex", flexWrap: "wrap", alignItems: "center", gap: 1 }}>
        <CountChips counts={counts} overdue={overdue} />
        <Box sx={{ display: "flex", alignItems: "center", gap: 2, ml: "auto" }}>
          <UILink ui={ui} path={imagesOfPath({ namespace, kind, name })}>
            {ui && "Open in the scanner"}
          </UILink>
          {refresh}
        </Box>
      </Box>
      <Typography variant="body2" color="text.secondary">
        {pod && `These are the findings of ${title}, which this pod belongs to. `}
        Suppressed findings do not count.
      </Typography>
      {scanned < imageCount && (
        <Alert severity="warning" sx={{ color: "text.primary" }}>
          {`${formatNumber(imageCount - scanned)} of ${plural(
            imageCount,
            "image",
          )} without a result: findings are missing.`}
        </Alert>
      )}
      {findings === 0 && scanned === imageCount && (
        <Alert severity="success" sx={{ color: "text.primary" }}>
          No findings.
        </Alert>
      )}
      {fixes.items.length > 0 && (
        <Part title="What to do first">
          {actions.length > 0 ? (
            <Fixes items={actions.slice(0, limits.fixes)} ui={ui} />
          ) : (
            <Typography variant="body2">Nothing to do until there is a fix.</Typography>
          )}
        </Part>
      )}
      {vulnerabilities.items.length > 0 && (
        <Part
          title="Vulnerabilities with the highest risk"
          shown={limits.vulnerabilities}
          total={vulnerabilities.total}
        >
          <Vulnerabilities items={vulnerabilities.items.slice(0, limits.vulnerabilities)} ui={ui} />
        </Part>
      )}
      <Part title="Images" shown={limits.images} total={images.total}>
        <Images items={images.items.slice(0, limits.images)} ui={ui} />
      </Part>
    </>
  );
}

/** A list with a heading, which says how many rows there are if not all of them are shown. */
function Part({
  title,
  shown = 0,
  total = 0,
  children,
}: {
  title: string;
  shown?: number;
  total?: number;
  children: ReactNode;
}) {
  return (
    <Box component="section" aria-label={title} sx={{ minWidth: 0 }}>
      <Typography variant="h6" component="h3" gutterBottom>
        {title}
        {total > shown && (
          <Typography component="span" variant="body2" color="text.secondary">
            {` (${formatNumber(shown)} of ${formatNumber(total)})`}
          </Typography>
        )}
      </Typography>
      {children}
    </Box>
  );
}
