export function Logo({ className }: { className?: string }) {
  return (
    <svg viewBox="0 0 32 32" fill="none" aria-hidden className={className}>
      <rect width="32" height="32" rx="8" fill="#0f766e" />
      <path
        d="M16 5.5 25 10.6v10.8L16 26.5 7 21.4V10.6Z"
        stroke="#ccfbf1"
        strokeWidth="2"
        strokeLinejoin="round"
      />
      <path
        d="M16 16v9.6M16 16l8.3-4.8M16 16l-8.3-4.8"
        stroke="#5eead4"
        strokeWidth="1.6"
        strokeLinecap="round"
      />
      <path d="M4.5 16h23" stroke="#fff" strokeWidth="2.4" strokeLinecap="round" />
    </svg>
  );
}
