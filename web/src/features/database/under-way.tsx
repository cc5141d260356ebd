import { Progress } from "@/components/ui/progress";
import type { Database, DatabaseUpdate } from "@/gen/model";
import { formatBytes, formatNumber, plural } from "@/lib/format";
import { visible } from "@/lib/text";
import { sources } from "./notices";

const stages: Partial<Record<string, string>> = {
  wait: "Waiting for another process that changes databases",
  check: "Looking for a newer database",
  download: "Downloading a database",
  unpack: "Unpacking a database",
  verify: "Verifying a database",
  prepare: "Preparing a database",
  publish: "Putting a database in place",
  "build sample": "Building the sample database",
};

function Work({
  title,
  note,
  done,
  total,
}: {
  title: string;
  note: string;
  done: number;
  total: number | undefined;
}) {
  return (
    <div>
      <p className="flex flex-wrap items-baseline justify-between gap-x-4 text-sm">
        <span className="font-medium">{title}</span>
        <span className="tabular text-[13px] text-muted">{note}</span>
      </p>
      <Progress label={title} done={done} total={total} className="mt-2" />
    </div>
  );
}

function Update({ update }: { update: DatabaseUpdate }) {
  const stage = update.stage ?? "";
  const { done = 0, total } = update;
  const note = total ? `${formatBytes(done)} of ${formatBytes(total)}` : done > 0 ? formatBytes(done) : "";
  return <Work title={stages[stage] ?? visible(stage)} note={note} done={done} total={total} />;
}

function Rematch({ database }: { database: Database }) {
  const preparing = database.state === "Preparing";
  const what = database.full ? "every package" : "what the new database can touch";
  return (
    <div>
      {preparing ? (
        <Work title="Comparing the databases" note="" done={0} total={undefined} />
      ) : (
        <Work
          title={`Matching ${what}`}
          note={`${formatNumber(database.matched)} of ${plural(database.queued, "package")}`}
          done={database.matched}
          total={database.queued || undefined}
        />
      )}
      <p className="mt-2 text-[13px] text-muted">
        With build <span className="untrusted font-mono text-xs">{visible(database.id)}</span>
        {`, ${sources[database.source]}. The results shown do not change until matching is complete.`}
      </p>
    </div>
  );
}

/** What is being done about databases at the moment; nothing when nothing is. */
export function UnderWay({
  update,
  database,
}: {
  update: DatabaseUpdate | undefined;
  database: Database | undefined;
}) {
  if (!update?.stage && !database) return null;
  return (
    <section
      aria-label="In progress"
      className="mt-3 space-y-4 rounded-xl border border-line bg-surface p-4 shadow-card"
    >
      {update?.stage && <Update update={update} />}
      {database && <Rematch database={database} />}
    </section>
  );
}
