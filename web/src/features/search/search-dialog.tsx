import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { useNavigate } from "react-router";
import { Command } from "@/components/ui/command";
import { useSettled } from "@/components/ui/use-settled";
import { search } from "@/gen/search/search";
import { describe } from "@/lib/problem";
import { visible } from "@/lib/text";
import { groupResults, type Destination } from "./results";

/** The operator refuses shorter and longer texts. */
const minLength = 2;
const maxLength = 253;

interface Props {
  open: boolean;
  onOpenChange: (open: boolean) => void;
  /** Where one can go without a text. */
  pages: Destination[];
}

/** Finds everything that contains a text, and goes there. */
export function SearchDialog({ open, onOpenChange, pages }: Props) {
  const navigate = useNavigate();
  const [settled, setSettled] = useState("");
  const [text, setText] = useSettled(settled, setSettled);
  const wanted = settled.length >= minLength;
  const { data, error, isFetching, isPlaceholderData } = useQuery({
    queryKey: ["search", settled],
    queryFn: ({ signal }) => search({ text: settled }, { signal }),
    enabled: open && wanted,
    placeholderData: keepPreviousData,
    gcTime: 60_000,
  });
  // Pages follow each key. What was found for another text stays until the next answer, and cannot be chosen: Enter leads to what is typed.
  const typed = text.trim();
  const matching = pages.filter(({ title }) => title.toLowerCase().includes(typed.toLowerCase()));
  const stale = typed !== settled || isPlaceholderData;
  const found = wanted && data ? groupResults(data, settled) : [];
  const groups = [...(matching.length > 0 ? [{ value: "Pages", items: matching }] : []), ...found];

  const partial = wanted ? (data?.partial ?? []) : [];

  let status = "";
  if (wanted && error) {
    const { title, detail } = describe(error);
    status = `Could not search: ${title}${detail ? `. ${detail}` : ""}`;
  } else if (wanted && isFetching && found.length === 0) status = "Searching…";
  else if (partial.length > 0)
    status = partial.map(({ kind, detail }) => `Not searched: ${kind}, ${visible(detail)}`).join(". ");
  else if (wanted && groups.length === 0) status = `Nothing that you may see contains “${settled}”`;
  else if (settled !== "" && !wanted) status = "Type at least two characters";

  return (
    <Command
      open={open}
      onOpenChange={onOpenChange}
      title="Search"
      placeholder="CVE, package and version, image, digest, workload, namespace, owner"
      maxLength={maxLength}
      text={text}
      onTextChange={setText}
      groups={groups}
      itemKey={({ to, title }) => `${to} ${title}`}
      isDisabled={(item) => stale && !matching.includes(item)}
      renderItem={({ title, detail }) => (
        <>
          <bdi className="untrusted min-w-0">{title}</bdi>
          {detail && <bdi className="untrusted min-w-0 text-xs text-muted">{detail}</bdi>}
        </>
      )}
      onChoose={({ to }) => {
        onOpenChange(false);
        void navigate(to);
      }}
      status={status}
    />
  );
}
