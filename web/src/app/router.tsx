import { createBrowserRouter, replace, type LoaderFunctionArgs } from "react-router";
import { SessionGate } from "@/features/session/session-gate";
import { signInPage } from "@/features/session/session";
import { OverviewPage } from "@/features/overview/overview-page";
import { basePath } from "@/lib/base-path";
import { ErrorPage } from "./error-page";
import { NotFound } from "./not-found";
import { Shell } from "./shell";

/** The list of images was at the root: links to it with filters lead to where it is now. */
const listedBefore = ({ request }: LoaderFunctionArgs) => {
  const { search, searchParams } = new URL(request.url);
  return search === "" || searchParams.has("signInError") ? null : replace(`/images${search}`);
};

export const routes = [
  {
    element: <SessionGate />,
    errorElement: <ErrorPage />,
    hydrateFallbackElement: <></>,
    children: [
      {
        element: <Shell />,
        children: [
          { index: true, element: <OverviewPage />, loader: listedBefore },
          {
            path: "images",
            lazy: async () => ({
              Component: (await import("@/features/images/list/images-page")).ImagesPage,
            }),
          },
          {
            path: "images/:imageId",
            lazy: async () => ({
              Component: (await import("@/features/images/detail/image-page")).ImagePage,
            }),
          },
          {
            path: "fixes",
            lazy: async () => ({
              Component: (await import("@/features/fixes/fixes-page")).FixesPage,
            }),
          },
          {
            path: "vulnerabilities",
            lazy: async () => ({
              Component: (await import("@/features/vulnerabilities/vulnerabilities-page"))
                .VulnerabilitiesPage,
            }),
          },
          {
            path: "vulnerabilities/:id",
            lazy: async () => ({
              Component: (await import("@/features/vulnerabilities/vulnerability-page")).VulnerabilityPage,
            }),
          },
          {
            path: "packages",
            lazy: async () => ({
              Component: (await import("@/features/packages/packages-page")).PackagesPage,
            }),
          },
          {
            path: "workloads",
            lazy: async () => ({
              Component: (await import("@/features/workloads/workloads-page")).WorkloadsPage,
            }),
          },
          {
            path: "rollouts",
            lazy: async () => ({
              Component: (await import("@/features/rollouts/rollouts-page")).RolloutsPage,
            }),
          },
          {
            path: "rollouts/:id",
            lazy: async () => ({
              Component: (await import("@/features/rollouts/detail/rollout-page")).RolloutPage,
            }),
          },
          {
            path: "compare",
            lazy: async () => ({
              Component: (await import("@/features/compare/compare-page")).ComparePage,
            }),
          },
          {
            path: "decisions",
            lazy: async () => ({
              Component: (await import("@/features/decisions/decisions-page")).DecisionsPage,
            }),
          },
          {
            path: "coverage",
            lazy: async () => ({
              Component: (await import("@/features/coverage/coverage-page")).CoveragePage,
            }),
          },
          {
            path: "notifications",
            lazy: async () => ({
              Component: (await import("@/features/notifications/notifications-page")).NotificationsPage,
            }),
          },
          {
            path: "database",
            lazy: async () => ({
              Component: (await import("@/features/database/database-page")).DatabasePage,
            }),
          },
          // The gate shows the sign-in page here, or leads on.
          { path: signInPage.slice(1), element: <></> },
          { path: "*", element: <NotFound /> },
        ],
      },
    ],
  },
];

export const createRouter = () => createBrowserRouter(routes, { basename: basePath });
