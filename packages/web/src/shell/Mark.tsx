/** The house's mark: a lit window. */
export function Mark({ size }: { readonly size: number }) {
  return (
    <svg aria-hidden width={size} height={size} viewBox="0 0 64 64">
      <rect width="64" height="64" rx="15" fill="#1b1815" />
      <path d="M18 52V30C18 19 25 12.500 32 9c7 3.500 14 10 14 21v22z" fill="#f3ab3c" />
      <path d="M32 9v43M18 33h28" stroke="#1b1815" strokeWidth="3.500" fill="none" />
      <path d="M13 52h38" stroke="#f3ab3c" strokeWidth="4" strokeLinecap="round" />
    </svg>
  )
}
