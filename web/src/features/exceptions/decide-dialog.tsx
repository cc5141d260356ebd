import { useQueryClient } from "@tanstack/react-query";
import { CircleAlert, Info, TriangleAlert } from "lucide-react";
import { useState } from "react";
import { Button } from "@/components/ui/button";
import { Callout } from "@/components/ui/callout";
import { CopyButton } from "@/components/ui/copy-button";
import { Dialog } from "@/components/ui/dialog";
import { ToggleButton } from "@/components/ui/toggle-button";
import { useNotify } from "@/components/ui/toast";
import { createException, replaceException } from "@/gen/exceptions/exceptions";
import type { Exception, ExceptionSaving } from "@/gen/model";
import { useNow } from "@/lib/clock";
import { describe } from "@/lib/problem";
import { visible } from "@/lib/text";
import { kindOf, manifestOf, missing, missingMatch, missingPlace, specOf, type Draft } from "./draft";
import { EndFields, ObjectFields, ReachFields, StatusFields } from "./fields";
import { PlaceFields, VulnerabilitiesField } from "./place-fields";
import { Preview, problems, usePreview } from "./preview";

export interface DialogProps {
  title: string;
  initial: Draft;
  /** The exception that is changed; absent for a new one. */
  existing?: Exception;
  onSaved?: () => void;
  open: boolean;
  onOpenChange: (open: boolean) => void;
}

const tools = ({ managedBy }: Exception) =>
  managedBy.map(({ tool, source }) => visible(source ? `${tool} (${source})` : tool)).join(", ");

/** Says that another tool manages an exception, and asks whether to change it all the same. */
export function Managed({
  exception,
  override,
  onOverride,
}: {
  exception: Exception;
  override: boolean;
  onOverride: (override: boolean) => void;
}) {
  if (exception.managedBy.length === 0) return null;
  return (
    <Callout tone="warn" icon={TriangleAlert} title={`Managed by ${tools(exception)}`}>
      <p>The tool may undo a change that is made here. Change the manifest at its source instead.</p>
      <ToggleButton pressed={override} onChange={onOverride}>
        Change it here anyway
      </ToggleButton>
    </Callout>
  );
}

/** Why the user cannot save, and what to do instead. */
function NoSaving({ save: { message = "" } }: { save: ExceptionSaving }) {
  return (
    <Callout tone="info" icon={Info} title="You cannot save this exception here">
      <p className="untrusted">{visible(message)}</p>
      <p>Copy the manifest, and apply it with kubectl or from Git.</p>
    </Callout>
  );
}

/** Asks for a decision, shows what it does before it is saved, and saves it as an exception or shows its manifest. */
export function DecideDialog({ title, initial, existing, open, onOpenChange, onSaved }: DialogProps) {
  const client = useQueryClient();
  const notify = useNotify();
  const now = useNow();
  const [draft, setDraft] = useState(initial);
  const [tried, setTried] = useState(false);
  const [override, setOverride] = useState(false);
  const [busy, setBusy] = useState(false);
  const [failure, setFailure] = useState<unknown>();
  const update = (change: Partial<Draft>) => {
    setFailure(undefined);
    setDraft((before) => ({ ...before, ...change }));
  };
  const spec = specOf(draft);
  const lacks = missing(draft);
  const complete = Object.keys(lacks).length === 0;
  const kind = kindOf(draft);
  const inNamespace = draft.where === "namespace" ? { namespace: draft.namespace } : {};
  const preview = usePreview(
    { kind, ...inNamespace, ...(existing && { name: existing.name }), spec },
    open && Object.keys({ ...missingPlace(draft), ...missingMatch(draft) }).length === 0,
  );
  const save = preview.preview?.save;
  const problem = preview.preview?.problems[0];
  // What is missing is said beside its field, once the user wants to save.
  const shown =
    complete || !preview.preview
      ? preview
      : {
          ...preview,
          preview: {
            ...preview.preview,
            problems: preview.preview.problems.filter(({ reason }) => reason !== "Invalid"),
          },
        };
  const manifest = manifestOf(draft);

  const submit = async () => {
    setTried(true);
    if (!complete) return;
    setBusy(true);
    setFailure(undefined);
    try {
      if (existing)
        await replaceException(
          existing.kind,
          existing.name,
          { version: existing.version, spec, ...(override && { overrideManager: true }) },
          existing.namespace ? { namespace: existing.namespace } : undefined,
        );
      else await createException({ kind, name: draft.name, spec, ...inNamespace });
      if (problem)
        notify.done(
          "Exception saved, but it does not apply",
          `${problems[problem.reason]}. ${visible(problem.message)}`,
        );
      else notify.done("Exception saved", "Lists and counts follow within seconds.");
      void client.invalidateQueries();
      onSaved?.();
      onOpenChange(false);
    } catch (error) {
      setFailure(error);
    } finally {
      setBusy(false);
    }
  };

  return (
    <Dialog
      open={open}
      onOpenChange={onOpenChange}
      title={title}
      actions={
        <>
          <Button onClick={() => onOpenChange(false)}>Cancel</Button>
          {save?.allowed && (
            <Button
              variant="primary"
              // Until the preview is of this draft, it says nothing about what is saved. A draft that lacks something has none.
              disabled={
                busy ||
                (complete && preview.busy) ||
                (existing !== undefined && existing.managedBy.length > 0 && !override)
              }
              onClick={() => void submit()}
            >
              {busy ? "Saving…" : "Save"}
            </Button>
          )}
        </>
      }
    >
      <div className="space-y-4">
        {existing && <Managed exception={existing} override={override} onOverride={setOverride} />}
        {draft.entered !== undefined && (
          <VulnerabilitiesField
            draft={draft}
            update={update}
            error={tried || draft.entered ? lacks.vulnerabilities : undefined}
          />
        )}
        <StatusFields draft={draft} update={update} error={tried ? lacks.comment : undefined} />
        <EndFields draft={draft} update={update} now={now} />
        <ReachFields draft={draft} update={update} match={spec.match} />
        <PlaceFields
          draft={draft}
          update={update}
          errors={lacks}
          tried={tried}
          fixed={existing !== undefined}
        />
        <ObjectFields draft={draft} update={update} error={lacks.name} fixed={existing !== undefined} />
        <div className="rounded-lg border border-line bg-subtle/60 px-4 py-3">
          <h3 className="sr-only">Preview</h3>
          <Preview {...shown} />
        </div>
        {save && !save.allowed && <NoSaving save={save} />}
        {failure !== undefined && <SaveError error={failure} />}
        <details open={save?.allowed === false || undefined}>
          <summary className="cursor-pointer text-[13px] font-medium">Manifest</summary>
          <div className="mt-2 flex items-start gap-1 rounded-md bg-subtle py-1.5 pr-1.5 pl-3">
            <pre
              aria-label="Manifest of the exception"
              className="untrusted min-w-0 flex-1 overflow-x-auto py-0.5 font-mono text-xs leading-5"
              tabIndex={0}
            >
              {manifest}
            </pre>
            <CopyButton text={manifest} label="Copy the manifest" />
          </div>
        </details>
      </div>
    </Dialog>
  );
}

function SaveError({ error }: { error: unknown }) {
  const { title, detail } = describe(error);
  return (
    <Callout tone="danger" icon={CircleAlert} role="alert" title={`Could not save the exception: ${title}`}>
      {detail && <p className="untrusted">{visible(detail)}</p>}
    </Callout>
  );
}
