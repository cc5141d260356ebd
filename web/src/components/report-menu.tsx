import { ChevronDown, FileText } from "lucide-react";
import { Menu, MenuContent, MenuItem, MenuTrigger } from "@/components/ui/menu";
import { below } from "@/lib/base-path";
import { reportPath, type ReportScope } from "@/lib/report";

const periods = [
  { since: "24h", label: "Last 24 hours" },
  { since: "7d", label: "Last 7 days" },
  { since: "30d", label: "Last 30 days" },
  { since: "90d", label: "Last 90 days" },
];

/** Opens a report about what the filters choose: an owner, a namespace, or all that the user may see. */
export function ReportMenu({ scope }: { scope: ReportScope }) {
  const open = (since: string) => window.open(below(reportPath(scope, since)), "_blank", "noopener");
  return (
    <Menu modal={false}>
      <MenuTrigger title="Open a report to print or to send: what changed, what is overdue, what to fix first">
        <FileText aria-hidden />
        Report
        <ChevronDown aria-hidden />
      </MenuTrigger>
      <MenuContent>
        {periods.map(({ since, label }) => (
          <MenuItem key={since} onClick={() => open(since)}>
            {label}
          </MenuItem>
        ))}
      </MenuContent>
    </Menu>
  );
}
