package giveway.yarn;

import java.util.ArrayList;
import java.util.Collection;
import java.util.Collections;
import java.util.Comparator;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.function.Function;

/** An order of applications as the sidecar sent it. It never changes; a newer one takes its place. */
final class Ranking {
  private final Map<String, Integer> places;

  Ranking(List<String> applications) {
    places = new HashMap<>(applications.size() * 2);
    for (String application : applications) {
      places.putIfAbsent(application, places.size());
    }
  }

  int size() {
    return places.size();
  }

  /**
   * The entities in this order. Those it does not know come last and keep the order they come in. Places are looked up once for each entity
   * and then compared, so nothing that moves meanwhile can upset the sort.
   */
  <S> List<S> sort(Collection<S> entities, Function<S, String> id) {
    List<Placed<S>> placed = new ArrayList<>(entities.size());
    for (S entity : entities) {
      Integer place = places.get(id.apply(entity));
      placed.add(new Placed<>(entity, place == null ? Integer.MAX_VALUE : place));
    }
    placed.sort(Comparator.comparingInt(one -> one.place));
    List<S> sorted = new ArrayList<>(placed.size());
    for (Placed<S> one : placed) {
      sorted.add(one.entity);
    }
    return Collections.unmodifiableList(sorted);
  }

  private static final class Placed<S> {
    final S entity;
    final int place;

    Placed(S entity, int place) {
      this.entity = entity;
      this.place = place;
    }
  }
}
