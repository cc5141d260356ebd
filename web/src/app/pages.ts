export const pages = [
  { to: "/", label: "Overview" },
  { to: "/images", label: "Images" },
  { to: "/fixes", label: "Fix first" },
  { to: "/vulnerabilities", label: "Vulnerabilities" },
  { to: "/packages", label: "Packages" },
  { to: "/workloads", label: "Workloads" },
  { to: "/rollouts", label: "Rollouts" },
  { to: "/decisions", label: "Decisions" },
  { to: "/coverage", label: "Coverage" },
  { to: "/notifications", label: "Notifications" },
  { to: "/database", label: "Database" },
];

/** Whether a path is that of a page, or below it. */
export const isWithin = (path: string, to: string) =>
  path === to || (to !== "/" && path.startsWith(`${to}/`)) || (to === "/images" && path === "/compare");
