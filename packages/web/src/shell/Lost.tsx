import { Link } from '@tanstack/react-router'
import { Empty } from '../ui/controls.tsx'

export function Lost() {
  return (
    <Empty title="There is nothing here">
      <Link to="/" className="text-accent-ink underline underline-offset-4">
        All sessions
      </Link>
    </Empty>
  )
}
