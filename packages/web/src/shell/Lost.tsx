import { Link } from '@tanstack/react-router'
import { PageTitle } from './PageTitle.tsx'
import { Empty } from '../ui/controls.tsx'

export function Lost() {
  return (
    <Empty title="There is nothing here" heading>
      <PageTitle name="Nothing here" />
      <Link to="/" className="text-accent-ink underline underline-offset-4">
        All sessions
      </Link>
    </Empty>
  )
}
