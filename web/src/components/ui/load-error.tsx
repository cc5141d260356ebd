import { CircleAlert } from "lucide-react";
import { Button } from "./button";
import { Callout } from "./callout";
import { describe } from "@/lib/problem";

/** What is shown could not be brought up to date. */
export function LoadError({ error, onRetry }: { error: unknown; onRetry: () => void }) {
  const { title, detail } = describe(error);
  return (
    <Callout
      tone="danger"
      icon={CircleAlert}
      title={`Could not refresh: ${title}`}
      role="alert"
      className="mt-3"
      action={
        <Button size="sm" onClick={onRetry}>
          Try again
        </Button>
      }
    >
      {detail && <p className="untrusted">{detail}</p>}
    </Callout>
  );
}
