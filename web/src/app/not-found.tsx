import { Compass } from "lucide-react";
import { Link } from "react-router";
import { buttonVariants } from "@/components/ui/button";
import { StatePanel } from "@/components/ui/state";

export function NotFound() {
  return (
    <StatePanel
      icon={Compass}
      title="Page not found"
      action={
        <Link to="/" className={buttonVariants({ variant: "primary" })}>
          Overview
        </Link>
      }
    />
  );
}
