import { CircleAlert } from "lucide-react";
import { useRouteError } from "react-router";
import { Button } from "@/components/ui/button";
import { StatePanel } from "@/components/ui/state";

/** A fault of the page itself, such as a part that no longer exists after an update of the operator. */
export function ErrorPage() {
  const error = useRouteError();
  return (
    <main className="mx-auto max-w-3xl">
      <StatePanel
        role="alert"
        icon={CircleAlert}
        title="This page failed"
        action={
          <Button variant="primary" onClick={() => window.location.reload()}>
            Reload
          </Button>
        }
      >
        <p>Reload the page. The operator may have been updated.</p>
        {error instanceof Error && <p className="font-mono text-xs">{error.message}</p>}
      </StatePanel>
    </main>
  );
}
