/** The place of rows that are on their way. */
export function Skeleton() {
  return (
    <ul aria-label="Loading" className="grid gap-0.5">
      {[0, 1, 2, 3].map((row) => (
        <li key={row} className="grid min-h-16 content-center gap-2 px-3.5">
          <span className="h-3 w-2/3 rounded-full bg-raised" />
          <span className="h-2.5 w-2/5 rounded-full bg-raised" />
        </li>
      ))}
    </ul>
  )
}
