import { useQueryClient } from "@tanstack/react-query";
import { CircleAlert, Pencil, Trash2 } from "lucide-react";
import { useState } from "react";
import { Link } from "react-router";
import { AlertDialog } from "@/components/ui/alert-dialog";
import { Button } from "@/components/ui/button";
import { Callout } from "@/components/ui/callout";
import { RelativeTime } from "@/components/ui/relative-time";
import { useNotify } from "@/components/ui/toast";
import { Part, Tags } from "@/components/vulnerability-facts";
import { Managed } from "@/features/exceptions/decide-dialog";
import { useDecide } from "@/features/exceptions/decide-provider";
import { justificationOf, objectOf, statuses } from "@/features/exceptions/decision";
import { draftOf } from "@/features/exceptions/draft";
import { describeSelector } from "@/features/exceptions/selector";
import { deleteException, useGetException } from "@/gen/exceptions/exceptions";
import type { DecisionContent, DecisionRecord, Exception, ExceptionKind } from "@/gen/model";
import { formatDateTime } from "@/lib/format";
import { ApiError, describe } from "@/lib/problem";
import { visible } from "@/lib/text";

function Content({
  content: { status, justification, comment, expiresAt, author, statedAuthor, expireWhenFixed },
}: {
  content: DecisionContent;
}) {
  return (
    <>
      <p>
        <span className="font-medium">{statuses[status]}</span>{" "}
        <span className="text-muted">
          {expiresAt ? `until ${formatDateTime(expiresAt)}` : "without an end"}
          {expireWhenFixed && ", for findings without a fix"}
        </span>
      </p>
      {justification && <p>{visible(justificationOf({ justification }))}</p>}
      {comment && <p className="untrusted max-w-prose whitespace-pre-line">{visible(comment)}</p>}
      {author && <p className="untrusted text-muted">Decided by {visible(author)}</p>}
      {statedAuthor && (
        <p className="untrusted text-muted">Author that the document states: {visible(statedAuthor)}</p>
      )}
    </>
  );
}

/** Where a decision applies; nothing if that is everywhere or not known. */
function Places({ of: places }: { of: string | undefined }) {
  if (!places) return null;
  return <p className="untrusted text-muted">Applies in: {visible(places)}</p>;
}

/** Everything about a decision, what it replaced, and what the user may do with its object. */
export function DecisionDetail({ row }: { row: DecisionRecord }) {
  const { match, object, previous, since, until, endedBy, deletedBy } = row;
  return (
    <div className="grid gap-x-10 gap-y-5 border-t border-line bg-canvas/60 px-4 py-4 lg:grid-cols-2 lg:pl-14">
      <div className="min-w-0 space-y-5">
        <Part title="Decision">
          <Content content={row} />
        </Part>
        {previous && (
          <Part title="Before">
            <Content content={previous} />
            {previous.match.places !== match.places && <Places of={previous.match.places ?? "everywhere"} />}
            <p className="text-muted">
              Since <RelativeTime iso={previous.since} />
            </p>
          </Part>
        )}
        <Part title="History">
          <p>
            Since <RelativeTime iso={since} />
            {until && (
              <>
                , {endedBy?.toLowerCase() ?? "ended"}
                {deletedBy && <span className="untrusted"> by {visible(deletedBy)}</span>}{" "}
                <RelativeTime iso={until} />
              </>
            )}
          </p>
          <Link
            to={`/decisions?${new URLSearchParams({ state: "all", name: object.name }).toString()}`}
            className="text-accent underline-offset-2 hover:underline"
          >
            All decisions of this object
          </Link>
        </Part>
      </div>
      <div className="min-w-0 space-y-5">
        <Part title="Matches">
          {(match.vulnerabilities ?? []).length > 0 && <Tags values={match.vulnerabilities ?? []} />}
          {(match.packages ?? []).length > 0 && <Tags values={match.packages ?? []} />}
          {(match.images ?? []).length > 0 && <Tags values={match.images ?? []} />}
          {row.state === "ended" && <Places of={match.places} />}
          {row.source === "vex" && <p className="text-xs text-muted">The document names the products.</p>}
        </Part>
        <Part title="Object">
          <p className="untrusted font-mono text-xs leading-5">{visible(objectOf(row))}</p>
          {object.namespace && <p>Applies in the namespace {visible(object.namespace)} only</p>}
          {row.state === "standing" && row.source === "kubernetes" && <Actions row={row} />}
        </Part>
      </div>
    </div>
  );
}

/** Which namespaces and workloads an exception selects. */
function Selectors({ exception: { spec } }: { exception: Exception }) {
  const { namespaceSelector, workloadSelector } = spec.match;
  return (
    <>
      {namespaceSelector && <Selector noun="namespaces" text={describeSelector(namespaceSelector)} />}
      {workloadSelector && <Selector noun="workloads" text={describeSelector(workloadSelector)} />}
    </>
  );
}

function Selector({ noun, text }: { noun: string; text: string }) {
  if (!text) return <p>For all {noun}</p>;
  return (
    <p>
      For {noun} with the labels <span className="untrusted font-mono text-xs">{visible(text)}</span>
    </p>
  );
}

/** What the user may do with the exception; nothing where the operator may not write exceptions. */
function Actions({ row: { object } }: { row: DecisionRecord }) {
  const kind = object.kind as ExceptionKind;
  const { data, error } = useGetException(
    kind,
    object.name,
    object.namespace ? { namespace: object.namespace } : undefined,
    { query: { retry: false } },
  );
  const decide = useDecide();
  const [ending, setEnding] = useState(false);
  if (error instanceof ApiError && [403, 404, 501].includes(error.status))
    return <p className="untrusted text-muted">{visible(error.detail ?? error.title)}</p>;
  if (error) return <p className="text-danger">{describe(error).title}</p>;
  if (!data) return null;
  return (
    <>
      <Selectors exception={data} />
      <p className="untrusted text-muted">
        {data.managers.length > 0 &&
          `Written by ${data.managers.map(({ name }) => visible(name)).join(", ")}`}
      </p>
      {!data.mayUpdate && !data.mayDelete && (
        <p className="text-muted">You have no permission to change or delete this object.</p>
      )}
      <div className="flex flex-wrap gap-2 pt-1">
        {data.mayUpdate && (
          <Button
            size="sm"
            onClick={() =>
              decide({
                title: `Edit ${visible(data.name)}`,
                initial: draftOf(data.namespace ?? "", data.name, data.spec),
                existing: data,
              })
            }
          >
            <Pencil aria-hidden />
            Edit
          </Button>
        )}
        {data.mayDelete && (
          <Button size="sm" variant="danger-outline" onClick={() => setEnding(true)}>
            <Trash2 aria-hidden />
            End now
          </Button>
        )}
      </div>
      <EndDialog exception={data} open={ending} onOpenChange={setEnding} />
    </>
  );
}

function EndDialog({
  exception,
  open,
  onOpenChange,
}: {
  exception: Exception;
  open: boolean;
  onOpenChange: (open: boolean) => void;
}) {
  const client = useQueryClient();
  const notify = useNotify();
  const [override, setOverride] = useState(false);
  const [busy, setBusy] = useState(false);
  const [failure, setFailure] = useState<unknown>();
  const { kind, name, namespace, version, managedBy } = exception;
  const end = async () => {
    setBusy(true);
    setFailure(undefined);
    try {
      await deleteException(kind, name, {
        version,
        ...(namespace && { namespace }),
        ...(override && { overrideManager: true }),
      });
      notify.done("Exception deleted", "The findings count again within seconds.");
      void client.invalidateQueries();
      onOpenChange(false);
    } catch (error) {
      setFailure(error);
    } finally {
      setBusy(false);
    }
  };
  const problem = failure === undefined ? undefined : describe(failure);
  return (
    <AlertDialog
      open={open}
      onOpenChange={onOpenChange}
      title="End this decision now?"
      actions={
        <>
          <Button onClick={() => onOpenChange(false)}>Cancel</Button>
          <Button
            variant="danger"
            disabled={busy || (managedBy.length > 0 && !override)}
            onClick={() => void end()}
          >
            {busy ? "Deleting…" : "Delete the exception"}
          </Button>
        </>
      }
    >
      <p className="untrusted rounded-md bg-subtle px-3 py-2 font-mono text-xs text-ink">
        {kind} {visible(name)}
      </p>
      <p>
        This deletes the object. Its findings count again. The history keeps the decision for the retention of
        decisions.
      </p>
      <Managed exception={exception} override={override} onOverride={setOverride} />
      {problem && (
        <Callout
          tone="danger"
          icon={CircleAlert}
          role="alert"
          title={`Could not delete the exception: ${problem.title}`}
        >
          {problem.detail && <p className="untrusted">{visible(problem.detail)}</p>}
        </Callout>
      )}
    </AlertDialog>
  );
}
