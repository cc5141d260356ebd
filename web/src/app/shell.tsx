import { Suspense } from "react";
import { Link, Outlet, ScrollRestoration } from "react-router";
import { Search } from "@/features/search/search";
import { AccountMenu } from "@/features/session/account-menu";
import { LiveBadge, OfflineBanner } from "./live-badge";
import { LiveProvider } from "./live-provider";
import { Logo } from "@/components/logo";
import { Navigation } from "./navigation";
import { pages } from "./pages";
import { ThemeSwitch } from "@/components/theme-switch";
import { Skeleton } from "@/components/ui/skeleton";
import { useOwnersKnown } from "@/lib/owners";

const destinations = pages.map(({ to, label }) => ({ to, title: label }));

export function Shell() {
  const ownersKnown = useOwnersKnown();
  return (
    <LiveProvider>
      <a
        href="#main"
        className="fixed top-2 left-2 z-50 -translate-y-20 rounded-md bg-accent px-3 py-2 text-sm font-medium text-on-accent focus:translate-y-0"
      >
        Skip to content
      </a>
      <header className="sticky top-0 z-30 border-b border-line bg-surface">
        <div className="mx-auto flex h-(--bar) max-w-[100rem] items-center gap-3 px-4 sm:px-6">
          <Link to="/" className="flex min-w-0 items-center gap-2.5 rounded-md font-semibold tracking-tight">
            <Logo className="size-7 shrink-0" />
            <span className="truncate max-sm:sr-only min-[1400px]:max-2xl:sr-only">scanner-operator</span>
          </Link>
          <Navigation />
          <div className="ml-auto flex items-center gap-1.5">
            <Search pages={destinations} />
            <LiveBadge />
            <ThemeSwitch />
            <AccountMenu />
          </div>
        </div>
      </header>
      <OfflineBanner />
      <main id="main" tabIndex={-1} className="mx-auto max-w-[100rem] px-4 py-5 outline-none sm:px-6 sm:py-6">
        <Suspense fallback={<Loading />}>
          {/* On a first visit: filters that appear later would move what is below them. */}
          {ownersKnown ? <Outlet /> : <Loading />}
        </Suspense>
      </main>
      <ScrollRestoration getKey={(location) => location.pathname + location.search} />
    </LiveProvider>
  );
}

function Loading() {
  return (
    <div role="status">
      <span className="sr-only">Loading the page</span>
      <Skeleton className="h-7 w-48" />
      <Skeleton className="mt-4 h-96 w-full rounded-xl" />
    </div>
  );
}
