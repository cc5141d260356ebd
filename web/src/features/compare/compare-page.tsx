import { ArrowLeftRight, FileQuestion } from "lucide-react";
import { Link } from "react-router";
import { BackLink } from "@/components/ui/back-link";
import { Button, buttonVariants } from "@/components/ui/button";
import { LoadError } from "@/components/ui/load-error";
import { PageTitle } from "@/components/ui/page-title";
import { Skeleton } from "@/components/ui/skeleton";
import { ErrorPanel, StatePanel } from "@/components/ui/state";
import { Brought } from "@/features/rollouts/detail/brought";
import { SideCard } from "@/features/rollouts/detail/side-card";
import { InOthers } from "@/features/session/empty";
import { useCompareImages } from "@/gen/images/images";
import { orAbsent, useAddress } from "@/lib/address";
import { listsKey } from "@/lib/lists";
import { ApiError } from "@/lib/problem";
import { visible } from "@/lib/text";
import { compared, type Compared } from "./filters";
import { Picker } from "./picker";

export function ComparePage() {
  const { filters, update } = useAddress(compared);
  const { from, to, platform } = filters;
  return (
    <>
      <BackLink to="/images">Images</BackLink>
      <PageTitle
        title="Compare"
        hint="The findings that another image opens and closes, compared as the images of a rollout are."
      />
      {from && to ? (
        <Comparison {...filters} update={update} />
      ) : (
        <Picker
          key={from ? "to" : "from"}
          title={from ? "To" : "From"}
          other={from || to}
          platform={platform}
          onAllPlatforms={() => update({ platform: "" })}
          onChoose={(imageId, chosen) =>
            update({ ...(from ? { to: imageId } : { from: imageId }), platform: chosen })
          }
        />
      )}
    </>
  );
}

function Comparison({
  from,
  to,
  platform,
  update,
}: Compared & { update: (change: Partial<Compared>) => void }) {
  const { data, error, refetch } = useCompareImages(
    { from, to, platform: orAbsent(platform) },
    { query: { queryKey: [...listsKey, "compare", from, to, platform] } },
  );
  if (!data) {
    if (error instanceof ApiError && error.status === 404) return <NotKnown platform={platform} />;
    if (error) return <ErrorPanel error={error} onRetry={() => void refetch()} />;
    return (
      <div role="status" className="mt-4 grid gap-3 lg:grid-cols-2">
        <span className="sr-only">Loading</span>
        <Skeleton className="h-28 rounded-xl" />
        <Skeleton className="h-28 rounded-xl" />
      </div>
    );
  }
  const change = (name: "from" | "to") => (
    <Button size="sm" onClick={() => update({ [name]: "" })} aria-label={`Change the image "${name}"`}>
      Change
    </Button>
  );
  return (
    <>
      {error && <LoadError error={error} onRetry={() => void refetch()} />}
      <div className="mt-4 grid items-center gap-3 lg:grid-cols-[minmax(0,1fr)_auto_minmax(0,1fr)]">
        <SideCard title="From" side={data.from} action={change("from")} />
        <Button
          size="sm"
          onClick={() => update({ from: to, to: from })}
          aria-label="Swap the images"
          className="justify-self-center"
        >
          <ArrowLeftRight aria-hidden />
        </Button>
        <SideCard title="To" side={data.to} action={change("to")} />
      </div>
      <Brought rollout={data} />
    </>
  );
}

function NotKnown({ platform }: { platform: string }) {
  return (
    <StatePanel
      icon={FileQuestion}
      title="Image not found"
      action={
        <Link to="/images" className={buttonVariants({ variant: "primary" })}>
          All images
        </Link>
      }
    >
      <p>
        One of the images was removed, or no container runs it any longer
        {platform && ` on the platform ${visible(platform)}`}.
      </p>
      <InOthers />
    </StatePanel>
  );
}
