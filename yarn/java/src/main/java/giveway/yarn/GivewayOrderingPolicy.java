package giveway.yarn;

import java.util.ArrayList;
import java.util.Collection;
import java.util.Collections;
import java.util.Iterator;
import java.util.List;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.hadoop.yarn.server.resourcemanager.rmcontainer.RMContainer;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.policy.FifoOrderingPolicy;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.policy.IteratorSelector;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.policy.SchedulableEntity;

/**
 * The order of applications in a leaf queue of the CapacityScheduler: the sidecar's, and Hadoop's own FIFO while there is none.
 *
 * <p>Set it as {@code yarn.scheduler.capacity.QUEUE.ordering-policy}. It keeps the applications as FIFO keeps them, and sorts a copy whenever the order
 * or the applications have changed; scheduling threads walk along that copy, which never changes.
 */
public class GivewayOrderingPolicy<S extends SchedulableEntity> extends FifoOrderingPolicy<S> {
  private final AtomicLong changes = new AtomicLong();
  private volatile Line<S> line;

  /** Applications in the sidecar's order, and what that order was made of. */
  private static final class Line<S> {
    final Ranking ranking;
    final long change;
    final List<S> sorted;

    Line(Ranking ranking, long change, List<S> sorted) {
      this.ranking = ranking;
      this.change = change;
      this.sorted = sorted;
    }
  }

  @Override
  public Iterator<S> getAssignmentIterator(IteratorSelector selector) {
    List<S> sorted = sorted();
    return sorted == null ? super.getAssignmentIterator(selector) : sorted.iterator();
  }

  @Override
  public Iterator<S> getPreemptionIterator() {
    List<S> sorted = sorted();
    if (sorted == null) {
      return super.getPreemptionIterator();
    }
    List<S> backwards = new ArrayList<>(sorted);
    Collections.reverse(backwards);
    return backwards.iterator();
  }

  private List<S> sorted() {
    try {
      Ranking ranking = Giveway.ranking();
      if (ranking == null) {
        line = null;
        return null;
      }
      long change = changes.get();
      Line<S> known = line;
      if (known == null || known.ranking != ranking || known.change != change) {
        known = new Line<>(ranking, change, ranking.sort(getSchedulableEntities(), SchedulableEntity::getId));
        line = known;
      }
      return known.sorted;
    } catch (Throwable t) {
      Giveway.trouble(t);
      return null;
    }
  }

  @Override
  public void addSchedulableEntity(S entity) {
    super.addSchedulableEntity(entity);
    changes.incrementAndGet();
    Giveway.added(entity);
  }

  @Override
  public void addAllSchedulableEntities(Collection<S> entities) {
    super.addAllSchedulableEntities(entities);
    changes.incrementAndGet();
    entities.forEach(Giveway::added);
  }

  @Override
  public boolean removeSchedulableEntity(S entity) {
    boolean removed = super.removeSchedulableEntity(entity);
    changes.incrementAndGet();
    Giveway.removed(entity);
    return removed;
  }

  @Override
  public void containerAllocated(S entity, RMContainer container) {
    super.containerAllocated(entity, container);
    Giveway.started(entity, container);
  }

  @Override
  public void containerReleased(S entity, RMContainer container) {
    super.containerReleased(entity, container);
    Giveway.ended(entity, container);
  }

  @Override
  public void demandUpdated(S entity) {
    super.demandUpdated(entity);
    Giveway.asked(entity);
  }

  @Override
  public String getInfo() {
    return "GivewayOrderingPolicy";
  }

  @Override
  public String getConfigName() {
    return GivewayOrderingPolicy.class.getName();
  }
}
